// When each row of a part changed last. A worker that has seen an older version must be told these
// rows.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "trainer/kvstore/row_payload.h"

namespace trainyard::engine {

// Not thread-safe. Costs nothing until rows change on their own.
class RowHistory {
 public:
  explicit RowHistory(const PartRows& part) : part_(part) {}

  // Nothing is known of any version.
  void Forget() {
    changed_.clear();
    all_changed_ = 0;
  }
  // The update that made `version` may have changed everything.
  void AllChanged(int64_t version) { all_changed_ = version; }
  // It changed these rows alone.
  void Changed(std::span<const int32_t> rows, int64_t version) {
    if (changed_.empty()) changed_.resize(part_.last() - part_.first(), -1);
    for (const int32_t row : rows) changed_[row - part_.first()] = version;
  }
  // False: since `seen` everything may have changed. Otherwise fills `rows` with those that have,
  // ascending.
  bool Since(int64_t seen, std::vector<int32_t>& rows) const {
    rows.clear();
    if (seen < all_changed_) return false;
    for (size_t i = 0; i < changed_.size(); ++i) {
      if (changed_[i] > seen) rows.push_back(part_.first() + static_cast<int32_t>(i));
    }
    return true;
  }

 private:
  const PartRows part_;
  int64_t all_changed_ = 0;
  std::vector<int64_t> changed_;  // by row, from part_.first()
};

}  // namespace trainyard::engine
