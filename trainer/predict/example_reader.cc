#include "trainer/predict/example_reader.h"

namespace trainyard::engine {
namespace {

std::vector<int64_t> WithoutOnes(const Shape& shape) {
  std::vector<int64_t> extents;
  for (const int64_t extent : shape.extents()) {
    if (extent != 1) extents.push_back(extent);
  }
  return extents;
}

}  // namespace

bool IsOneExample(const Shape& found, const Shape& wanted) {
  const std::vector<int64_t> extents = WithoutOnes(found);
  if (extents == WithoutOnes(wanted)) return true;
  return extents.size() == 1 && extents[0] == wanted.elements();
}

}  // namespace trainyard::engine
