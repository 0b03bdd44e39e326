#include "trainer/transport/loan_message.h"

#include <fmt/format.h>

#include <cstring>
#include <utility>

#include "trainer/base/status_macros.h"
#include "trainer/transport/flow_control.h"
#include "trainer/transport/loan_book.h"

namespace trainyard::engine {
namespace {

constexpr size_t kLeastLoan = 16 << 10;         // bytes; shorter payloads are copied as fast
constexpr size_t kLeastLentResult = 128 << 10;  // the sender of a sum's result waits until it has that back

// Reads a message from front to back.
class LoanCutter {
 public:
  explicit LoanCutter(std::span<const std::byte> rest) : rest_(rest) {}
  size_t left() const { return rest_.size(); }
  absl::StatusOr<std::span<const std::byte>> Cut(size_t count) {
    if (count > rest_.size()) {
      return absl::InvalidArgumentError(
          fmt::format("message with lent payloads ends early: {} bytes left, expected {}", rest_.size(), count));
    }
    const std::span<const std::byte> cut = rest_.first(count);
    rest_ = rest_.subspan(count);
    return cut;
  }
  template <typename T>
  absl::StatusOr<T> Next() {
    TY_ASSIGN_OR_RETURN(const std::span<const std::byte> bytes, Cut(sizeof(T)));
    T value;
    std::memcpy(&value, bytes.data(), sizeof(T));
    return value;
  }

 private:
  std::span<const std::byte> rest_;
};

absl::Status CheckLoan(const WireHeader& header, const LoanHead& loan) {
  if (MayStayWithSender(header) && loan.pieces <= kMostLoanPieces && loan.number < kMostLoans) return absl::OkStatus();
  return absl::InvalidArgumentError(fmt::format("'{}' is lent in {} pieces as loan {}, expected values, at most {} pieces, a loan below {}",
                                                WireOpName(header.op), loan.pieces, loan.number, kMostLoanPieces, kMostLoans));
}

}  // namespace

bool MayStayWithSender(const WireHeader& header) {
  const bool lists_rows = (header.flags & kWireFlagRows) != 0 && (header.op == WireOp::kPush || header.op == WireOp::kParameters);
  return header.dtype != kWireDTypeNone && NeedsCredit(header.op) && !lists_rows;
}

std::optional<std::vector<LoanPiece>> FindLoan(const Record& record, const LendableMemory& memory) {
  const size_t least = record.header.op == WireOp::kResult ? kLeastLentResult : kLeastLoan;
  const std::span<const std::span<const std::byte>> pieces = record.payload.pieces();
  if (record.payload.size() < least || pieces.size() > kMostLoanPieces || !MayStayWithSender(record.header)) return std::nullopt;
  std::vector<LoanPiece> places;
  places.reserve(pieces.size());
  for (const std::span<const std::byte> piece : pieces) {
    const std::optional<uint64_t> offset = memory.OffsetOf(piece);
    if (!offset) return std::nullopt;
    places.push_back({*offset, piece.size()});
  }
  return places;
}

absl::StatusOr<std::vector<Record>> ParseLoanMessage(std::span<const std::byte> message, const std::shared_ptr<const void>& owner,
                                                     std::span<const std::byte> memory,
                                                     const std::function<std::shared_ptr<const void>(uint32_t number)>& borrow) {
  std::vector<Record> records;
  LoanCutter cutter(message);
  while (cutter.left() > 0) {
    TY_ASSIGN_OR_RETURN(const std::span<const std::byte> header_bytes, cutter.Cut(kWireHeaderBytes));
    TY_ASSIGN_OR_RETURN(const WireHeader header, Decode(header_bytes.first<kWireHeaderBytes>()));
    TY_ASSIGN_OR_RETURN(const LoanHead loan, cutter.Next<LoanHead>());
    if (loan.pieces == 0) {
      TY_ASSIGN_OR_RETURN(const std::span<const std::byte> payload, cutter.Cut(header.length));
      records.push_back({.header = header, .payload = Payload(payload, owner)});
      continue;
    }
    TY_RETURN_IF_ERROR(CheckLoan(header, loan));
    std::vector<std::span<const std::byte>> pieces;
    uint64_t length = 0;
    for (uint32_t i = 0; i < loan.pieces; ++i) {
      TY_ASSIGN_OR_RETURN(const LoanPiece piece, cutter.Next<LoanPiece>());
      if (piece.offset > memory.size() || piece.bytes > memory.size() - piece.offset) {
        return absl::InvalidArgumentError(
            fmt::format("'{}': {} bytes at {} are lent of {}", WireOpName(header.op), piece.bytes, piece.offset, memory.size()));
      }
      pieces.push_back(memory.subspan(piece.offset, piece.bytes));
      length += piece.bytes;
    }
    if (length != header.length) {
      return absl::InvalidArgumentError(
          fmt::format("'{}': {} bytes are lent, its header says {}", WireOpName(header.op), length, header.length));
    }
    records.push_back({.header = header, .payload = Payload(std::move(pieces), borrow(loan.number))});
  }
  return records;
}

}  // namespace trainyard::engine
