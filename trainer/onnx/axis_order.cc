#include "trainer/onnx/axis_order.h"

#include <algorithm>
#include <numeric>

#include "trainer/base/check.h"

namespace trainyard::engine {

AxisOrder OurOrder(int rank) {
  AxisOrder order(static_cast<size_t>(rank));
  std::iota(order.begin(), order.end(), 0);
  return order;
}

AxisOrder ChannelsFirst(int rank) {
  TY_CHECK(rank >= 2);
  AxisOrder order = OurOrder(rank);
  std::rotate(order.begin() + 1, order.end() - 1, order.end());
  return order;
}

AxisOrder StepsFirst() { return {1, 0, 2}; }

int PlaceOfLast(const AxisOrder& order) { return static_cast<int>(std::ranges::max_element(order) - order.begin()); }

std::vector<int64_t> TransposeOf(const AxisOrder& from, const AxisOrder& to) {
  std::vector<int64_t> perm;
  for (const int axis : to) perm.push_back(std::ranges::find(from, axis) - from.begin());
  return perm;
}

bool HasOurElements(const AxisOrder& order, const Shape& shape) {
  if (order.empty() || order[0] != 0) return false;
  int last = 0;
  for (const int axis : order) {
    if (axis != 0 && shape[axis] == 1) continue;
    if (axis < last) return false;
    last = axis;
  }
  return true;
}

}  // namespace trainyard::engine
