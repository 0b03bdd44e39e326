#include "trainer/tfrecord/tfrecord.h"

#include <fmt/format.h>
#include <isa-l/crc.h>

#include <bit>
#include <cstring>

#include "trainer/base/check.h"
#include "trainer/base/status_macros.h"

namespace trainyard::engine {
namespace {

static_assert(std::endian::native == std::endian::little, "lengths and checksums are copied as they stand in the file");

constexpr size_t kLengthBytes = 8;
constexpr size_t kCrcBytes = 4;
static_assert(kTfRecordHead == kLengthBytes + kCrcBytes);

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

uint32_t Crc32c(std::string_view bytes) { return ExtendCrc32c(0, bytes); }

uint32_t ExtendCrc32c(uint32_t crc, std::string_view bytes) {
  // isa-l takes lengths as int and leaves both inversions of the usual definition to the caller.
  constexpr size_t kPiece = size_t{1} << 30;
  crc = ~crc;
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

absl::StatusOr<uint64_t> TfRecordLength(std::string_view head, uint64_t max_bytes) {
  TY_CHECK(head.size() == kTfRecordHead);
  if (Load<uint32_t>(head, kLengthBytes) != MaskedCrc32c(head.substr(0, kLengthBytes))) {
    return absl::DataLossError("record's length does not match its checksum");
  }
  const auto length = Load<uint64_t>(head, 0);
  if (length > max_bytes)
    return absl::DataLossError(fmt::format("record is said to have {} bytes, at most {} are read", length, max_bytes));
  return length;
}

absl::StatusOr<std::string_view> TfRecordData(std::string_view data_and_crc) {
  TY_CHECK(data_and_crc.size() >= kCrcBytes);
  const std::string_view data = data_and_crc.substr(0, data_and_crc.size() - kCrcBytes);
  if (Load<uint32_t>(data_and_crc, data.size()) != MaskedCrc32c(data)) {
    return absl::DataLossError(fmt::format("record of {} bytes does not match its checksum", data.size()));
  }
  return data;
}

absl::StatusOr<std::string_view> TakeTfRecord(std::string_view& bytes, uint64_t max_bytes) {
  TY_CHECK(!bytes.empty());
  if (bytes.size() < kTfRecordHead)
    return absl::DataLossError(fmt::format("record is cut off inside its length ({} bytes are left)", bytes.size()));
  TY_ASSIGN_OR_RETURN(const uint64_t length, TfRecordLength(bytes.substr(0, kTfRecordHead), max_bytes));
  const std::string_view rest = bytes.substr(kTfRecordHead);
  if (rest.size() < length || rest.size() - length < kCrcBytes) {
    return absl::DataLossError(fmt::format("record of {} bytes is cut off ({} bytes are left)", length, rest.size()));
  }
  TY_ASSIGN_OR_RETURN(const std::string_view data, TfRecordData(rest.substr(0, length + kCrcBytes)));
  bytes = rest.substr(length + kCrcBytes);
  return data;
}

}  // namespace trainyard::engine
