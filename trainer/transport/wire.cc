#include "trainer/transport/wire.h"

#include <fmt/format.h>

#include <type_traits>

#include "trainer/base/status_macros.h"

namespace trainyard::engine {
namespace {

constexpr uint8_t kLastDType = 5;  // DType::kBF16

// Walks the header's fields in wire order; each field is as long as its type.
class Writer {
 public:
  explicit Writer(std::array<std::byte, kWireHeaderBytes>& bytes) : bytes_(bytes) {}
  template <typename T>
  void Put(T value) {
    for (size_t i = 0; i < sizeof(T); ++i) bytes_[at_++] = static_cast<std::byte>(static_cast<uint64_t>(value) >> (8 * i));
  }

 private:
  std::array<std::byte, kWireHeaderBytes>& bytes_;
  size_t at_ = 0;
};

class Reader {
 public:
  explicit Reader(std::span<const std::byte, kWireHeaderBytes> bytes) : bytes_(bytes) {}
  template <typename T>
  T Get() {
    uint64_t value = 0;
    for (size_t i = 0; i < sizeof(T); ++i) value |= static_cast<uint64_t>(bytes_[at_++]) << (8 * i);
    return static_cast<T>(value);
  }

 private:
  std::span<const std::byte, kWireHeaderBytes> bytes_;
  size_t at_ = 0;
};

template <typename T>
absl::Status Expect(std::string_view field, T found, T expected) {
  if (found == expected) return absl::OkStatus();
  return absl::InvalidArgumentError(fmt::format(
      "wire header: {} is {:#x}, expected {:#x}; is the peer a trainyard-trainer of the same version?", field, found, expected));
}

}  // namespace

std::string_view WireOpName(WireOp op) {
  switch (op) {
    case WireOp::kHello:
      return "hello";
    case WireOp::kWelcome:
      return "welcome";
    case WireOp::kState:
      return "state";
    case WireOp::kAssign:
      return "assign";
    case WireOp::kReady:
      return "ready";
    case WireOp::kPull:
      return "pull";
    case WireOp::kValues:
      return "values";
    case WireOp::kPush:
      return "push";
    case WireOp::kParameters:
      return "parameters";
    case WireOp::kHeartbeat:
      return "heartbeat";
    case WireOp::kLeave:
      return "leave";
    case WireOp::kDone:
      return "done";
    case WireOp::kError:
      return "error";
    case WireOp::kEnd:
      return "end";
    case WireOp::kCredit:
      return "credit";
    case WireOp::kChallenge:
      return "challenge";
    case WireOp::kProof:
      return "proof";
    case WireOp::kReset:
      return "reset";
    case WireOp::kTorn:
      return "torn";
    case WireOp::kRelease:
      return "release";
    case WireOp::kJoin:
      return "join";
    case WireOp::kForm:
      return "form";
    case WireOp::kSum:
      return "sum";
    case WireOp::kResult:
      return "result";
    case WireOp::kFinished:
      return "finished";
    case WireOp::kOffer:
      return "offer";
    case WireOp::kShare:
      return "share";
    case WireOp::kPace:
      return "pace";
    case WireOp::kNewer:
      return "newer";
    case WireOp::kAsk:
      return "ask";
  }
  return "?";
}

std::array<std::byte, kWireHeaderBytes> Encode(const WireHeader& header) {
  std::array<std::byte, kWireHeaderBytes> bytes{};
  Writer writer(bytes);
  writer.Put(kWireMagic);
  writer.Put(kWireVersion);
  writer.Put(static_cast<uint16_t>(header.op));
  writer.Put(header.flags);
  writer.Put(header.epoch);
  writer.Put(header.sender);
  writer.Put(header.key);
  writer.Put(header.part);
  writer.Put(header.slot);
  writer.Put(header.dtype);
  writer.Put(header.codec);
  writer.Put(header.step);
  writer.Put(header.offset);
  writer.Put(header.length);
  writer.Put(header.crc);
  writer.Put(header.fingerprint);
  return bytes;
}

absl::StatusOr<WireHeader> Decode(std::span<const std::byte, kWireHeaderBytes> bytes) {
  Reader reader(bytes);
  TY_RETURN_IF_ERROR(Expect("magic", reader.Get<uint32_t>(), kWireMagic));
  TY_RETURN_IF_ERROR(Expect("version", reader.Get<uint16_t>(), kWireVersion));
  WireHeader header;
  const auto op = reader.Get<uint16_t>();
  constexpr auto kFirst = static_cast<uint16_t>(WireOp::kHello);
  constexpr auto kLast = static_cast<uint16_t>(WireOp::kAsk);
  if (op < kFirst || op > kLast) {
    return absl::InvalidArgumentError(fmt::format("wire header: op is {}, expected one of {} to {}", op, kFirst, kLast));
  }
  header.op = static_cast<WireOp>(op);
  header.flags = reader.Get<uint32_t>();
  header.epoch = reader.Get<uint32_t>();
  header.sender = reader.Get<uint32_t>();
  header.key = reader.Get<uint32_t>();
  header.part = reader.Get<uint32_t>();
  header.slot = reader.Get<uint16_t>();
  header.dtype = reader.Get<uint8_t>();
  header.codec = reader.Get<uint8_t>();
  header.step = reader.Get<uint64_t>();
  header.offset = reader.Get<uint64_t>();
  header.length = reader.Get<uint32_t>();
  header.crc = reader.Get<uint32_t>();
  header.fingerprint = reader.Get<uint64_t>();
  if (header.dtype > kLastDType && header.dtype != kWireDTypeNone) {
    return absl::InvalidArgumentError(fmt::format("wire header of '{}': dtype is {}, expected 0 to {} or {}", WireOpName(header.op),
                                                  header.dtype, kLastDType, kWireDTypeNone));
  }
  TY_RETURN_IF_ERROR(Expect<uint8_t>("codec", header.codec, 0));
  TY_RETURN_IF_ERROR(Expect<uint32_t>("crc", header.crc, 0));
  if (header.length > kMaxPayloadBytes) {
    return absl::InvalidArgumentError(fmt::format("wire header of '{}': length is {} bytes, expected at most {}", WireOpName(header.op),
                                                  header.length, kMaxPayloadBytes));
  }
  return header;
}

}  // namespace trainyard::engine
