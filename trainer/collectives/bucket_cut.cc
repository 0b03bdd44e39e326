#include "trainer/collectives/bucket_cut.h"

#include <algorithm>

namespace trainyard::engine {

std::vector<BucketCut> CutIntoBuckets(std::span<const size_t> elements, size_t bucket_bytes) {
  const size_t most = bucket_bytes / sizeof(float);
  const size_t least = most / 4;
  std::vector<BucketCut> buckets;
  size_t room = 0;
  for (size_t tensor = 0; tensor < elements.size(); ++tensor) {
    for (size_t begin = 0; begin < elements[tensor];) {
      if (room == 0) {
        buckets.emplace_back();
        room = most;
      }
      const size_t count = std::min(room, elements[tensor] - begin);
      buckets.back().push_back({.tensor = static_cast<int>(tensor), .begin = begin, .count = count});
      begin += count;
      room -= count;
    }
    if (room > 0 && most - room >= least) room = 0;
  }
  return buckets;
}

size_t ElementsOf(const BucketCut& bucket) {
  size_t elements = 0;
  for (const BucketSegment& segment : bucket) elements += segment.count;
  return elements;
}

}  // namespace trainyard::engine
