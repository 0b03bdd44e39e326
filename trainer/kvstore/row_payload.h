// Some rows of one part of a tensor, as they travel and are read again: docs/wire.md, "Rows".
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "trainer/kvstore/buffer_pool.h"
#include "trainer/kvstore/placement.h"
#include "trainer/tensor/dtype.h"
#include "trainer/tensor/parameter_set.h"
#include "trainer/transport/payload.h"

namespace trainyard::engine {

// Where the rows of a tensor [rows, ..] lie in one of its parts, and as which type its values
// travel. Parts are cut without regard to rows: the first and the last row may stick out, and then
// only what lies in the part is meant.
class PartRows {
 public:
  PartRows(const ParameterSpec& spec, const Part& part, DType travels_as = DType::kF32);

  struct Range {
    size_t begin = 0;  // element of the part
    size_t count = 0;
  };
  // Rows of the part are [first, last).
  int32_t first() const { return first_; }
  int32_t last() const { return last_; }
  Range RangeOf(int32_t row) const;
  // Those of a tensor's rows (ascending, each once) that the part has something of.
  std::span<const int32_t> Inside(std::span<const int32_t> rows) const;
  // How long a payload of these rows of the part is, and one of all its values.
  size_t PayloadBytes(std::span<const int32_t> rows) const;
  size_t AllBytes() const { return static_cast<size_t>(end_ - begin_) * SizeOf(travels_as_); }
  DType travels_as() const { return travels_as_; }

 private:
  int64_t row_elements_ = 0;
  int64_t begin_ = 0;  // of the part, in the tensor
  int64_t end_ = 0;
  int32_t first_ = 0;
  int32_t last_ = 0;
  DType travels_as_ = DType::kF32;
};

// The payload of rows of a part, copied out of the part's values, which are rounded on the way
// where they travel as bfloat16.
Payload MakeRowPayload(const PartRows& part, std::span<const int32_t> rows, std::span<const float> values, BufferPool& pool);
// Out of the values as they travel.
Payload MakeRowPayload(const PartRows& part, std::span<const int32_t> rows, std::span<const std::byte> values, BufferPool& pool);

// The rows that a payload names, ascending and all of this part, whose values follow each other in
// it (ValuesOfRows). InvalidArgument says what the payload has and what was expected. Memory used
// is proportional to the payload, whatever it claims.
absl::StatusOr<std::vector<int32_t>> ParseRowPayload(const PartRows& part, const Payload& payload);
// A reader of a parsed payload that has read as far as the first value.
PayloadReader ValuesOfRows(const Payload& payload, std::span<const int32_t> rows);

}  // namespace trainyard::engine
