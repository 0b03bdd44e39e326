// A message of which some payloads stay where they lie in the sender's memory: it tells their
// places (docs/wire.md, "Shared memory").
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "trainer/base/lendable_memory.h"
#include "trainer/transport/transport.h"

namespace trainyard::engine {

// Behind the header of each record of such a message. Then `pieces` LoanPieces follow, or, where
// that is 0, the payload.
struct LoanHead {
  uint32_t number;  // of the loan
  uint32_t pieces;
};
struct LoanPiece {
  uint64_t offset;
  uint64_t bytes;
};
inline constexpr size_t kMostLoanPieces = 64;

// What `record` tells of itself where its payload is lent: the pieces, all of them in `memory`.
// Nothing: it is short, or must be copied since its receiver checks it, or lies elsewhere.
std::optional<std::vector<LoanPiece>> FindLoan(const Record& record, const LendableMemory& memory);

// Payloads of values, which a receiver uses as they are: the sender may change them meanwhile, and
// spoils what it has sent itself, no more. Others are parsed and then trusted, so they are copied.
bool MayStayWithSender(const WireHeader& header);

// Cuts a received message into records. Lent payloads lie in `memory`; `borrow` gives the owner of
// a loan by its number. Other payloads share `message` and its owner. InvalidArgument: as
// ParseMessage, or a loan that does not fit its header or the memory, or that may not be one.
absl::StatusOr<std::vector<Record>> ParseLoanMessage(std::span<const std::byte> message, const std::shared_ptr<const void>& owner,
                                                     std::span<const std::byte> memory,
                                                     const std::function<std::shared_ptr<const void>(uint32_t number)>& borrow);

}  // namespace trainyard::engine
