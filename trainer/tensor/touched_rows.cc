#include "trainer/tensor/touched_rows.h"

#include <algorithm>

#include "trainer/base/check.h"

namespace trainyard::engine {

void TouchedRows::Reserve(size_t ids) {
  if (ids_.size() < ids) ids_.resize(ids);
}

void TouchedRows::Touch(std::span<const int32_t> ids) {
  TY_CHECK(ids.size() <= ids_.size());
  const std::span<int32_t> list = std::span(ids_).first(ids.size());
  std::ranges::copy(ids, list.begin());
  std::ranges::sort(list);
  count_ = static_cast<size_t>(std::ranges::unique(list).begin() - list.begin());
  all_ = false;
}

}  // namespace trainyard::engine
