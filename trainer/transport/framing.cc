#include "trainer/transport/framing.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

namespace trainyard::engine {
namespace {

constexpr size_t kLongestErrorText = 8192;

// Takes sub-ranges of a message from front to back.
class Cutter {
 public:
  explicit Cutter(const Payload& message) : message_(message) {}

  // The next `count` bytes, which must be there.
  Payload Cut(size_t count) {
    std::vector<std::span<const std::byte>> pieces;
    while (count > 0) {
      const std::span<const std::byte> rest = message_.pieces()[piece_].subspan(offset_);
      const std::span<const std::byte> taken = rest.first(std::min(rest.size(), count));
      if (!taken.empty()) pieces.push_back(taken);
      count -= taken.size();
      offset_ += taken.size();
      if (taken.size() == rest.size()) {
        ++piece_;
        offset_ = 0;
      }
    }
    return {std::move(pieces), message_.owner()};
  }

 private:
  const Payload& message_;
  size_t piece_ = 0;
  size_t offset_ = 0;
};

}  // namespace

absl::StatusOr<std::vector<Record>> ParseMessage(const Payload& message) {
  std::vector<Record> records;
  Cutter cutter(message);
  size_t left = message.size();
  while (left > 0) {
    if (left < kWireHeaderBytes) {
      return absl::InvalidArgumentError(fmt::format("message ends within a header: {} bytes left, expected {}", left, kWireHeaderBytes));
    }
    std::array<std::byte, kWireHeaderBytes> bytes;
    const Payload header_bytes = cutter.Cut(kWireHeaderBytes);
    PayloadReader(header_bytes).Read(bytes);
    left -= kWireHeaderBytes;
    absl::StatusOr<WireHeader> header = Decode(bytes);
    if (!header.ok()) return header.status();
    if (header->length > left) {
      return absl::InvalidArgumentError(fmt::format("message ends within the payload of '{}': {} bytes left, its header says {}",
                                                    WireOpName(header->op), left, header->length));
    }
    left -= header->length;
    records.push_back({.header = *header, .payload = cutter.Cut(header->length)});
  }
  return records;
}

Record ErrorRecord(const absl::Status& status) {
  std::string text(4, '\0');
  text[0] = static_cast<char>(status.code());
  text.append(std::string_view(status.message().data(), std::min(status.message().size(), kLongestErrorText)));
  Record record;
  record.header.op = WireOp::kError;
  record.header.length = static_cast<uint32_t>(text.size());
  record.payload = Payload::OfText(std::move(text));
  return record;
}

absl::Status StatusOf(const Record& error) {
  const std::string text = error.payload.ToString();
  const int code = text.empty() ? 0 : static_cast<unsigned char>(text[0]);
  if (text.size() < 4 || code == 0 || code > static_cast<int>(absl::StatusCode::kUnauthenticated)) {
    return absl::InvalidArgumentError(fmt::format("an error record of {} bytes with code {}", text.size(), code));
  }
  return {static_cast<absl::StatusCode>(code), absl::string_view(text).substr(4, kLongestErrorText)};
}

}  // namespace trainyard::engine
