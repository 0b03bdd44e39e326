#include "trainer/data/tfrecord.h"

#include <fmt/format.h>
#include <isa-l/crc.h>

#include <bit>
#include <cstring>

#include "trainer/base/check.h"

namespace trainyard::engine {
namespace {

static_assert(std::endian::native == std::endian::little, "lengths and checksums are copied as they stand in the file");

constexpr size_t kLengthBytes = 8;
constexpr size_t kCrcBytes = 4;
constexpr size_t kHeadBytes = kLengthBytes + kCrcBytes;

template <typename T>
void Append(T value, std::string& out) {
  out.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

template <typename T>
T Load(std::string_view bytes, size_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof(value));
  return value;
}

}  // namespace

uint32_t Crc32c(std::string_view bytes) {
  // isa-l takes lengths as int and leaves both inversions of the usual definition to the caller.
  constexpr size_t kPiece = size_t{1} << 30;
  uint32_t crc = 0xffffffff;
  while (!bytes.empty()) {
    const std::string_view piece = bytes.substr(0, kPiece);
    auto* data = reinterpret_cast<unsigned char*>(const_cast<char*>(piece.data()));
    crc = crc32_iscsi(data, static_cast<int>(piece.size()), crc);
    bytes.remove_prefix(piece.size());
  }
  return ~crc;
}

uint32_t MaskedCrc32c(std::string_view bytes) { return std::rotr(Crc32c(bytes), 15) + 0xa282ead8; }

void AppendTfRecord(std::string_view data, std::string& out) {
  const size_t start = out.size();
  Append<uint64_t>(data.size(), out);
  Append(MaskedCrc32c(std::string_view(out).substr(start, kLengthBytes)), out);
  out += data;
  Append(MaskedCrc32c(data), out);
}

absl::StatusOr<std::string_view> TakeTfRecord(std::string_view& bytes, uint64_t max_bytes) {
  TY_CHECK(!bytes.empty());
  if (bytes.size() < kHeadBytes)
    return absl::DataLossError(fmt::format("record is cut off inside its length ({} bytes are left)", bytes.size()));
  if (Load<uint32_t>(bytes, kLengthBytes) != MaskedCrc32c(bytes.substr(0, kLengthBytes))) {
    return absl::DataLossError("record's length does not have the checksum that stands behind it");
  }
  const auto length = Load<uint64_t>(bytes, 0);
  if (length > max_bytes)
    return absl::DataLossError(fmt::format("record is said to have {} bytes, at most {} are read", length, max_bytes));
  if (bytes.size() - kHeadBytes < length || bytes.size() - kHeadBytes - length < kCrcBytes) {
    return absl::DataLossError(fmt::format("record of {} bytes is cut off ({} bytes are left)", length, bytes.size() - kHeadBytes));
  }
  const std::string_view data = bytes.substr(kHeadBytes, length);
  if (Load<uint32_t>(bytes, kHeadBytes + length) != MaskedCrc32c(data)) {
    return absl::DataLossError(fmt::format("record of {} bytes does not have the checksum that stands behind it", length));
  }
  bytes.remove_prefix(kHeadBytes + length + kCrcBytes);
  return data;
}

}  // namespace trainyard::engine
