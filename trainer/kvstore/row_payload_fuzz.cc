// Feeds arbitrary bytes, in two pieces, to the reader of row payloads, as float32 and as bfloat16;
// what it takes must come back as the same bytes.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "trainer/base/check.h"
#include "trainer/kvstore/gradient_reader.h"
#include "trainer/kvstore/row_payload.h"

using trainyard::engine::BufferPool;
using trainyard::engine::DType;
using trainyard::engine::GradientReader;
using trainyard::engine::MakeRowPayload;
using trainyard::engine::ParseRowPayload;
using trainyard::engine::PartRows;
using trainyard::engine::Payload;
using trainyard::engine::PushedGradient;

namespace {

constexpr size_t kElements = 24;  // of rows 1 to 6 of a tensor whose rows have five

// The upper bits of values that were bfloat16s are all of them.
std::vector<std::byte> AsTheyTravel(const std::vector<float>& values, DType type) {
  const size_t size = SizeOf(type);
  std::vector<std::byte> bytes(values.size() * size);
  for (size_t i = 0; i < values.size(); ++i) {
    std::memcpy(bytes.data() + i * size, reinterpret_cast<const std::byte*>(&values[i]) + sizeof(float) - size, size);
  }
  return bytes;
}

void ReadAndWrite(std::span<const std::byte> bytes, size_t cut, DType type) {
  const PartRows part({.name = "table", .shape = {10, 5}}, {.key = 0, .index = 1, .server = 0, .begin = 8, .count = kElements}, type);
  PushedGradient gradient(Payload(std::vector<std::span<const std::byte>>{bytes.first(cut), bytes.subspan(cut)}, nullptr));
  absl::StatusOr<std::vector<int32_t>> rows = ParseRowPayload(part, gradient.payload);
  if (!rows.ok()) return;
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
  const Payload again = MakeRowPayload(part, *gradient.rows, AsTheyTravel(values, type), pool);
  TY_CHECK(again.ToString() == gradient.payload.ToString());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::span<const std::byte> bytes = std::as_bytes(std::span(data, size));
  const size_t cut = size == 0 ? 0 : data[size - 1] % (size + 1);
  ReadAndWrite(bytes, cut, DType::kF32);
  ReadAndWrite(bytes, cut, DType::kBF16);
  return 0;
}
