// Reads a pushed gradient of a part from front to back, whether all of it was sent or some rows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "trainer/kvstore/row_payload.h"
#include "trainer/transport/payload.h"

namespace trainyard::engine {

// A gradient (or next value) of one part as it was received and checked.
struct PushedGradient {
  PushedGradient() = default;
  PushedGradient(Payload all_values) : payload(std::move(all_values)) {}  // NOLINT(google-explicit-constructor): the usual case

  Payload payload;
  std::optional<std::vector<int32_t>> rows;  // ParseRowPayload's; nothing: the payload is the part's values
  // Devices of the worker whose gradients are summed in it. 0: none had examples; the push counts,
  // and nothing of it is read.
  int addends = 1;
  int64_t stream = 0;  // which of the worker's streams it came by; each new one has another number
};

// The gradient must outlive it.
class GradientReader {
 public:
  GradientReader(const PushedGradient& gradient, const PartRows& part)
      : part_(part),
        by_rows_(gradient.rows.has_value()),
        rows_(by_rows_ ? std::span<const int32_t>(*gradient.rows) : std::span<const int32_t>()),
        payload_(by_rows_ ? ValuesOfRows(gradient.payload, rows_) : PayloadReader(gradient.payload)) {}

  // The next `count` elements of the part, zeros where no row was sent: where they lie, or in
  // `scratch` (at least `count` long).
  std::span<const float> Next(size_t count, std::span<float> scratch);
  // Goes on at a later element of the part. Only over rows that were not sent.
  void SkipTo(size_t element);

 private:
  const PartRows& part_;
  const bool by_rows_;
  std::span<const int32_t> rows_;  // not yet read to their end
  PayloadReader payload_;
  size_t at_ = 0;  // element of the part; counted for rows only
};

}  // namespace trainyard::engine
