// How tensors are cut into buckets: pure, the same on every rank.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace trainyard::engine {

// Elements [begin, begin + count) of a tensor.
struct BucketSegment {
  int tensor = 0;
  size_t begin = 0;
  size_t count = 0;
  friend bool operator==(const BucketSegment&, const BucketSegment&) = default;
};
using BucketCut = std::vector<BucketSegment>;

// `elements`: of each tensor, in the order in which they become ready. A bucket has at most
// `bucket_bytes`. It ends with a tensor where it has a quarter of that by then: so a large tensor's
// rest does not wait for the tensors that become ready later. Empty tensors are in none.
std::vector<BucketCut> CutIntoBuckets(std::span<const size_t> elements, size_t bucket_bytes);

size_t ElementsOf(const BucketCut& bucket);

}  // namespace trainyard::engine
