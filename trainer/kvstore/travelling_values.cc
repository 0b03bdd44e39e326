#include "trainer/kvstore/travelling_values.h"

#include <algorithm>
#include <array>
#include <memory>
#include <utility>

#include "trainer/tensor/bfloat16.h"

namespace trainyard::engine {
namespace {

constexpr size_t kStretch = 1024;  // values that are copied together where they lie in several pieces

}  // namespace

void ReadValues(PayloadReader& payload, DType type, std::span<float> out) {
  if (type == DType::kF32) return payload.Read(std::as_writable_bytes(out));
  std::array<std::byte, 2 * kStretch> scratch;
  while (!out.empty()) {
    const size_t count = std::min(out.size(), kStretch);
    FromBfloat16(payload.Bytes(2 * count, scratch), out.first(count));
    out = out.subspan(count);
  }
}

std::span<const float> NextValues(PayloadReader& payload, DType type, size_t count, std::span<float> scratch) {
  if (type == DType::kF32) return payload.Floats(count, scratch);
  ReadValues(payload, type, scratch.first(count));
  return scratch.first(count);
}

Payload Bfloat16Payload(std::span<const float> values, BufferPool& pool) {
  const size_t size = 2 * values.size();
  std::shared_ptr<Buffer> buffer = pool.Take(size);
  const std::span<std::byte> bytes(buffer->data(), size);
  ToBfloat16(values, bytes);
  return {bytes, std::move(buffer)};
}

}  // namespace trainyard::engine
