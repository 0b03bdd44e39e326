// TFRecord framing, the one home of it: u64 length, u32 masked crc32c of those 8 bytes, data, u32
// masked crc32c of the data; little-endian. mask(c) = rotate_right(c, 15) + 0xa282ead8. Source:
// TensorFlow's documentation of TFRecord files. TensorBoard's event files are framed the same way.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace trainyard::engine {

inline constexpr size_t kTfRecordHead = 12;      // length and its checksum
inline constexpr size_t kTfRecordOverhead = 16;  // and the checksum of the data

// CRC-32C (Castagnoli), not masked: "123456789" gives 0xe3069283.
uint32_t Crc32c(std::string_view bytes);
// Of `before` and `bytes` in a row, where `crc` is that of `before`; 0 is that of nothing.
uint32_t ExtendCrc32c(uint32_t crc, std::string_view bytes);
uint32_t MaskedCrc32c(std::string_view bytes);

// Appends one framed record.
void AppendTfRecord(std::string_view data, std::string& out);

// Takes the record at the front of `bytes` and moves `bytes` past it; the view points into what
// `bytes` viewed. `bytes` must not be empty. DataLoss says what is wrong (cut off, wrong length
// checksum, wrong data checksum, longer than `max_bytes`); `bytes` is then unchanged.
absl::StatusOr<std::string_view> TakeTfRecord(std::string_view& bytes, uint64_t max_bytes = uint64_t{1} << 30);

// The parts of it, for records that are read piece by piece. `head` has kTfRecordHead bytes;
// `data_and_crc` the data and the 4 bytes after it, and the result is the data.
absl::StatusOr<uint64_t> TfRecordLength(std::string_view head, uint64_t max_bytes);
absl::StatusOr<std::string_view> TfRecordData(std::string_view data_and_crc);

}  // namespace trainyard::engine
