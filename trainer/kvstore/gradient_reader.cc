#include "trainer/kvstore/gradient_reader.h"

#include <algorithm>

#include "trainer/base/check.h"
#include "trainer/kvstore/travelling_values.h"

namespace trainyard::engine {

std::span<const float> GradientReader::Next(size_t count, std::span<float> scratch) {
  if (!by_rows_) return NextValues(payload_, part_.travels_as(), count, scratch);
  const size_t end = at_ + count;
  if (!rows_.empty()) {
    const PartRows::Range row = part_.RangeOf(rows_.front());
    if (row.begin == at_ && row.count == count) {  // row by row, as an update of these rows alone reads
      rows_ = rows_.subspan(1);
      at_ = end;
      return NextValues(payload_, part_.travels_as(), count, scratch);
    }
  }
  const std::span<float> out = scratch.first(count);
  std::ranges::fill(out, 0.0F);
  while (!rows_.empty()) {
    const PartRows::Range row = part_.RangeOf(rows_.front());
    const size_t from = std::max(row.begin, at_);
    const size_t to = std::min(row.begin + row.count, end);
    if (from >= to) break;
    ReadValues(payload_, part_.travels_as(), out.subspan(from - at_, to - from));
    if (to < row.begin + row.count) break;  // the rest of this row comes next
    rows_ = rows_.subspan(1);
  }
  at_ = end;
  return out;
}

void GradientReader::SkipTo(size_t element) {
  TY_CHECK(by_rows_ && element >= at_ && (rows_.empty() || part_.RangeOf(rows_.front()).begin >= element));
  at_ = element;
}

}  // namespace trainyard::engine
