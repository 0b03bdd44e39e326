// Feeds arbitrary bytes, in two pieces, to the reader of row payloads; what it takes must come back
// as the same bytes.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "trainer/base/check.h"
#include "trainer/kvstore/gradient_reader.h"
#include "trainer/kvstore/row_payload.h"

using trainyard::engine::BufferPool;
using trainyard::engine::GradientReader;
using trainyard::engine::MakeRowPayload;
using trainyard::engine::ParseRowPayload;
using trainyard::engine::PartRows;
using trainyard::engine::Payload;
using trainyard::engine::PushedGradient;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  constexpr size_t kElements = 24;  // of rows 1 to 6 of a tensor whose rows have five
  const PartRows part({.name = "table", .shape = {10, 5}}, {.key = 0, .index = 1, .server = 0, .begin = 8, .count = kElements});
  const std::span<const std::byte> bytes = std::as_bytes(std::span(data, size));
  const size_t cut = size == 0 ? 0 : data[size - 1] % (size + 1);
  PushedGradient gradient(Payload(std::vector<std::span<const std::byte>>{bytes.first(cut), bytes.subspan(cut)}, nullptr));
  absl::StatusOr<std::vector<int32_t>> rows = ParseRowPayload(part, gradient.payload);
  if (!rows.ok()) return 0;
  gradient.rows = *std::move(rows);
  std::vector<float> values(kElements);
  GradientReader reader(gradient, part);
  const size_t stretch = 1 + cut % kElements;
  std::vector<float> scratch(stretch);
  for (size_t begin = 0; begin < kElements; begin += stretch) {
    const size_t count = std::min(stretch, kElements - begin);
    std::memcpy(values.data() + begin, reader.Next(count, scratch).data(), count * sizeof(float));
  }
  BufferPool pool(1 << 10);
  const Payload again = MakeRowPayload(part, *gradient.rows, values, pool);
  TY_CHECK(again.ToString() == gradient.payload.ToString());
  return 0;
}
