#include "trainer/kvstore/row_payload.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <utility>

#include "trainer/base/check.h"
#include "trainer/tensor/bfloat16.h"

namespace trainyard::engine {
namespace {

static_assert(std::endian::native == std::endian::little, "the wire is little-endian, and numbers are copied as they are");

constexpr size_t kCountBytes = sizeof(uint32_t);
constexpr size_t kRowIdBytes = sizeof(int32_t);

// `put` writes the values of a range of the part, as they travel.
template <typename Put>
Payload MakePayload(const PartRows& part, std::span<const int32_t> rows, BufferPool& pool, Put put) {
  const size_t size = part.PayloadBytes(rows);
  std::shared_ptr<Buffer> buffer = pool.Take(size);
  std::span<std::byte> rest(buffer->data(), size);
  const auto take = [&rest](size_t bytes) {
    const std::span<std::byte> taken = rest.first(bytes);
    rest = rest.subspan(bytes);
    return taken;
  };
  const auto count = static_cast<uint32_t>(rows.size());
  std::ranges::copy(std::as_bytes(std::span(&count, 1)), take(kCountBytes).begin());
  std::ranges::copy(std::as_bytes(rows), take(rows.size_bytes()).begin());
  for (const int32_t row : rows) {
    const PartRows::Range range = part.RangeOf(row);
    put(range, take(range.count * SizeOf(part.travels_as())));
  }
  const std::span<const std::byte> bytes(buffer->data(), size);
  return {bytes, std::move(buffer)};
}

}  // namespace

PartRows::PartRows(const ParameterSpec& spec, const Part& part, DType travels_as)
    : row_elements_(spec.row_elements()), begin_(part.begin), end_(part.begin + part.count), travels_as_(travels_as) {
  if (part.count == 0) return;
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();  // rows beyond have no number and travel with all others
  first_ = static_cast<int32_t>(std::min(begin_ / row_elements_, kMost));
  last_ = static_cast<int32_t>(std::min((end_ + row_elements_ - 1) / row_elements_, kMost));
}

PartRows::Range PartRows::RangeOf(int32_t row) const {
  const int64_t begin = std::max(begin_, row * row_elements_);
  const int64_t end = std::min(end_, (row + int64_t{1}) * row_elements_);
  TY_CHECK(begin < end);
  return {.begin = static_cast<size_t>(begin - begin_), .count = static_cast<size_t>(end - begin)};
}

std::span<const int32_t> PartRows::Inside(std::span<const int32_t> rows) const {
  const auto from = std::ranges::lower_bound(rows, first_);
  const auto to = std::ranges::lower_bound(rows, last_);
  return {from, to};
}

size_t PartRows::PayloadBytes(std::span<const int32_t> rows) const {
  size_t elements = 0;
  for (const int32_t row : rows) elements += RangeOf(row).count;
  return kCountBytes + rows.size() * kRowIdBytes + elements * SizeOf(travels_as_);
}

Payload MakeRowPayload(const PartRows& part, std::span<const int32_t> rows, std::span<const float> values, BufferPool& pool) {
  if (part.travels_as() == DType::kF32) return MakeRowPayload(part, rows, std::as_bytes(values), pool);
  return MakePayload(part, rows, pool, [&](const PartRows::Range& range, std::span<std::byte> out) {
    ToBfloat16(values.subspan(range.begin, range.count), out);
  });
}

Payload MakeRowPayload(const PartRows& part, std::span<const int32_t> rows, std::span<const std::byte> values, BufferPool& pool) {
  const size_t size = SizeOf(part.travels_as());
  return MakePayload(part, rows, pool, [&](const PartRows::Range& range, std::span<std::byte> out) {
    std::ranges::copy(values.subspan(range.begin * size, range.count * size), out.begin());
  });
}

absl::StatusOr<std::vector<int32_t>> ParseRowPayload(const PartRows& part, const Payload& payload) {
  uint32_t count = 0;
  if (payload.size() < kCountBytes) {
    return absl::InvalidArgumentError(fmt::format("rows: {} bytes, expected at least {}", payload.size(), kCountBytes));
  }
  PayloadReader reader(payload);
  reader.Read(std::as_writable_bytes(std::span(&count, 1)));
  if (count > (payload.size() - kCountBytes) / kRowIdBytes) {
    return absl::InvalidArgumentError(fmt::format("rows: {} rows are announced in {} bytes", count, payload.size()));
  }
  std::vector<int32_t> rows(count);
  reader.Read(std::as_writable_bytes(std::span(rows)));
  for (size_t i = 0; i < rows.size(); ++i) {
    if (rows[i] < part.first() || rows[i] >= part.last()) {
      return absl::InvalidArgumentError(
          fmt::format("rows: row {} is not in this part, expected {} to {}", rows[i], part.first(), part.last() - 1));
    }
    if (i > 0 && rows[i] <= rows[i - 1]) {
      return absl::InvalidArgumentError(fmt::format("rows: row {} after row {}, expected ascending rows", rows[i], rows[i - 1]));
    }
  }
  if (const size_t expected = part.PayloadBytes(rows); payload.size() != expected) {
    return absl::InvalidArgumentError(fmt::format("rows: {} bytes for {} rows, expected {}", payload.size(), count, expected));
  }
  return rows;
}

PayloadReader ValuesOfRows(const Payload& payload, std::span<const int32_t> rows) {
  PayloadReader reader(payload);
  reader.Skip(kCountBytes + rows.size_bytes());
  return reader;
}

}  // namespace trainyard::engine
