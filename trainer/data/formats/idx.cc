#include "trainer/data/formats/idx.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "trainer/base/check.h"
#include "trainer/base/status_macros.h"

namespace trainyard::engine {
namespace {

constexpr uint64_t kMaxIdxBytes = uint64_t{1} << 46;

template <typename Word>
Word LoadBigEndian(const std::byte* bytes) {
  Word word = 0;
  for (size_t i = 0; i < sizeof(Word); ++i) word = static_cast<Word>((static_cast<uint64_t>(word) << 8) | static_cast<uint8_t>(bytes[i]));
  return word;
}

int SignedByte(std::byte byte) {
  const int value = std::to_integer<int>(byte);
  return value < 128 ? value : value - 256;
}

template <typename Out>
void Decode(IdxType type, const std::byte* bytes, std::span<Out> out) {
  for (size_t i = 0; i < out.size(); ++i) {
    switch (type) {
      case IdxType::kU8:
        out[i] = static_cast<Out>(static_cast<uint8_t>(bytes[i]));
        break;
      case IdxType::kI8:
        out[i] = static_cast<Out>(SignedByte(bytes[i]));
        break;
      case IdxType::kI16:
        out[i] = static_cast<Out>(static_cast<int16_t>(LoadBigEndian<uint16_t>(bytes + 2 * i)));
        break;
      case IdxType::kI32:
        out[i] = static_cast<Out>(static_cast<int32_t>(LoadBigEndian<uint32_t>(bytes + 4 * i)));
        break;
      case IdxType::kF32:
        out[i] = static_cast<Out>(std::bit_cast<float>(LoadBigEndian<uint32_t>(bytes + 4 * i)));
        break;
      case IdxType::kF64:
        out[i] = static_cast<Out>(std::bit_cast<double>(LoadBigEndian<uint64_t>(bytes + 8 * i)));
        break;
    }
  }
}

bool IsIdxType(uint8_t byte) {
  return std::ranges::any_of(std::array{IdxType::kU8, IdxType::kI8, IdxType::kI16, IdxType::kI32, IdxType::kF32, IdxType::kF64},
                             [byte](IdxType type) { return static_cast<uint8_t>(type) == byte; });
}

absl::Status CutOff(std::string_view name, const IdxHeader& header, uint64_t found) {
  return absl::DataLossError(
      fmt::format("{} is cut off: its header promises {} records of {} bytes ({} bytes), but only {} bytes follow it", name,
                  header.records(), header.record_bytes(), header.records() * header.record_bytes(), found));
}

}  // namespace

std::string_view IdxTypeName(IdxType type) {
  switch (type) {
    case IdxType::kU8:
      return "unsigned byte";
    case IdxType::kI8:
      return "signed byte";
    case IdxType::kI16:
      return "short";
    case IdxType::kI32:
      return "int";
    case IdxType::kF32:
      return "float";
    case IdxType::kF64:
      return "double";
  }
  return "?";
}

size_t IdxElementBytes(IdxType type) {
  switch (type) {
    case IdxType::kU8:
    case IdxType::kI8:
      return 1;
    case IdxType::kI16:
      return 2;
    case IdxType::kI32:
    case IdxType::kF32:
      return 4;
    case IdxType::kF64:
      return 8;
  }
  return 0;
}

absl::StatusOr<IdxHeader> ReadIdxHeader(ByteSource& source, std::string_view name) {
  std::array<std::byte, 4> magic{};
  TY_ASSIGN_OR_RETURN(size_t got, source.Read(magic));
  if (got < magic.size()) return absl::DataLossError(fmt::format("{} has {} bytes, too few for an IDX header", name, got));
  const auto byte = [&](int i) { return static_cast<uint8_t>(magic[i]); };
  if (byte(0) != 0 || byte(1) != 0 || !IsIdxType(byte(2))) {
    return absl::InvalidArgumentError(
        fmt::format("{} is not an IDX file: it starts with {:02x} {:02x} {:02x} {:02x}, expected 00 00, a type (08 09 0b 0c 0d 0e) and the "
                    "number of axes",
                    name, byte(0), byte(1), byte(2), byte(3)));
  }
  // A batch adds no axis (the record axis becomes the batch's), images without channels add one.
  constexpr int kMaxAxes = Shape::kMaxRank - 1;
  const int axes = byte(3);
  if (axes < 1 || axes > kMaxAxes) {
    return absl::InvalidArgumentError(fmt::format("{} has {} axes in its IDX header, expected 1 to {}", name, axes, kMaxAxes));
  }
  std::array<std::byte, size_t{4} * kMaxAxes> raw{};
  TY_ASSIGN_OR_RETURN(got, source.Read(std::span(raw).first(size_t{4} * axes)));
  if (got < size_t{4} * axes) return absl::DataLossError(fmt::format("{} is cut off inside its IDX header of {} axes", name, axes));
  IdxHeader header;
  header.type = static_cast<IdxType>(byte(2));
  std::array<int64_t, kMaxAxes> extents{};
  uint64_t total = IdxElementBytes(header.type);
  for (int axis = 0; axis < axes; ++axis) {
    extents[axis] = LoadBigEndian<uint32_t>(raw.data() + size_t{4} * axis);
    if (axis > 0 && extents[axis] == 0)
      return absl::InvalidArgumentError(fmt::format("{} has records of no elements (axis {} is 0)", name, axis));
    if (__builtin_mul_overflow(total, std::max<uint64_t>(extents[axis], 1), &total) || total > kMaxIdxBytes) {
      return absl::InvalidArgumentError(fmt::format("{} has axes in its IDX header that make more than {} bytes", name, kMaxIdxBytes));
    }
  }
  header.shape = Shape(std::span<const int64_t>(extents.data(), axes));
  return header;
}

absl::StatusOr<IdxRange> ResolveIdxRange(const IdxHeader& header, IdxRange range, std::string_view name) {
  const int64_t records = header.records();
  if (range.end == -1) range.end = records;
  if (range.begin < 0 || range.begin > range.end || range.end > records) {
    return absl::OutOfRangeError(
        fmt::format("range [{}, {}) is not inside {}, which has {} records", range.begin, range.end, name, records));
  }
  return range;
}

absl::StatusOr<IdxRecords> ReadIdx(ByteSource& source, std::string_view name, IdxRange range, uint64_t max_bytes) {
  IdxRecords records;
  TY_ASSIGN_OR_RETURN(records.header, ReadIdxHeader(source, name));
  const IdxHeader& header = records.header;
  TY_ASSIGN_OR_RETURN(range, ResolveIdxRange(header, range, name));
  records.begin = range.begin;
  records.end = range.end;
  const uint64_t record_bytes = header.record_bytes();
  const uint64_t total = header.records() * record_bytes;
  const uint64_t wanted = (range.end - range.begin) * record_bytes;
  if (const uint64_t left = source.AtMostLeft(); total > left) return CutOff(name, header, left);
  if (wanted > max_bytes) {
    return absl::InvalidArgumentError(fmt::format("{} needs {} bytes of memory for records [{}, {}), at most {} are allowed", name, wanted,
                                                  range.begin, range.end, max_bytes));
  }
  const uint64_t before = range.begin * record_bytes;
  TY_ASSIGN_OR_RETURN(uint64_t skipped, Skip(source, before));
  if (skipped < before) return CutOff(name, header, skipped);
  TY_ASSIGN_OR_RETURN(records.bytes, ReadAsTheyCome(source, wanted));
  if (records.bytes.size() < wanted) return CutOff(name, header, before + records.bytes.size());
  const uint64_t after = total - before - wanted;
  TY_ASSIGN_OR_RETURN(skipped, Skip(source, after));
  if (skipped < after) return CutOff(name, header, before + wanted + skipped);
  TY_ASSIGN_OR_RETURN(uint64_t trailing, Skip(source, 1));
  if (trailing > 0) {
    return absl::InvalidArgumentError(
        fmt::format("{} goes on after its {} records of {} bytes; its header or its end is wrong", name, header.records(), record_bytes));
  }
  return records;
}

void DecodeIdxAsF32(IdxType type, const std::byte* bytes, std::span<float> out) { Decode(type, bytes, out); }

void DecodeIdxAsI32(IdxType type, const std::byte* bytes, std::span<int32_t> out) {
  TY_CHECK(type != IdxType::kF32 && type != IdxType::kF64);
  Decode(type, bytes, out);
}

}  // namespace trainyard::engine
