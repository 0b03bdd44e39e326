#include "trainer/transport/shared_stream.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <utility>

#include "trainer/base/clock.h"
#include "trainer/base/status_macros.h"
#include "trainer/transport/framing.h"

namespace trainyard::engine {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr absl::Duration kSharedCloseDeadline = absl::Seconds(10);                // after Close, without anything written
constexpr absl::Duration kLongestSleep = absl::Seconds(1);                        // the other process can spoil the bell
constexpr absl::Duration kPolledFor = absl::Milliseconds(10);                     // after Poll, without another one
constexpr uint32_t kInArena = uint32_t{1} << 31;                                  // beside the length of a message
constexpr uint32_t kWithLoans = uint32_t{1} << 30;                                // likewise
constexpr size_t kLongestMessage = kMessageBytes + kMaxPayloadBytes + (1 << 20);  // what TakeMessage makes, with room for headers

// A run of the arena that this side reads; gives it back.
class BorrowedRun {
 public:
  BorrowedRun(std::shared_ptr<const SharedSegment> segment, uint32_t block, size_t size)
      : segment_(std::move(segment)), block_(block), size_(size) {}
  BorrowedRun(const BorrowedRun&) = delete;
  BorrowedRun& operator=(const BorrowedRun&) = delete;
  ~BorrowedRun() { segment_->Borrower().Return(block_, size_); }

 private:
  const std::shared_ptr<const SharedSegment> segment_;
  const uint32_t block_;
  const size_t size_;
};

// A payload that this side reads in the other's memory; gives it back.
class BorrowedLoan {
 public:
  BorrowedLoan(std::shared_ptr<const SharedSegment> segment, std::shared_ptr<const LentMemory> memory, uint32_t number)
      : segment_(std::move(segment)), memory_(std::move(memory)), number_(number) {}
  BorrowedLoan(const BorrowedLoan&) = delete;
  BorrowedLoan& operator=(const BorrowedLoan&) = delete;
  ~BorrowedLoan() {
    LoanState& loans = segment_->other_loans();
    loans.returned.fetch_or(uint64_t{1} << number_, std::memory_order_seq_cst);
    // Else the lender looks when the next message comes.
    if (loans.awaited.load(std::memory_order_seq_cst) != 0) segment_->other_bell().Ring();
  }

 private:
  const std::shared_ptr<const SharedSegment> segment_;
  const std::shared_ptr<const LentMemory> memory_;
  const uint32_t number_;
};

// As a message that has all payloads.
size_t BytesOf(std::span<const Record> records) {
  size_t bytes = 0;
  for (const Record& record : records) bytes += static_cast<size_t>(CreditOf(record.header));
  return bytes;
}

void CopyOutOfArena(std::span<Record> records) {
  for (Record& record : records) {
    if (record.payload.size() > 0 && !MayStayWithSender(record.header)) record.payload = Payload::OfText(record.payload.ToString());
  }
}

}  // namespace

SharedStream::SharedStream(std::string peer, std::shared_ptr<StreamHandler> handler, size_t window_bytes, size_t first_message_bytes,
                           std::unique_ptr<SharedSegment> segment, std::shared_ptr<LendableMemory> lendable, std::shared_ptr<Stream> below)
    : FlowStream(std::move(peer), std::move(handler), window_bytes, first_message_bytes),
      segment_(std::move(segment)),
      lendable_(std::move(lendable)),
      lent_(segment_->BorrowMemory()),
      below_(std::move(below)),
      loans_(segment_->own_loans()),
      writer_(segment_->Writer()),
      filler_(segment_->Filler()),
      reader_(segment_->Reader()) {}

void SharedStream::Run() {
  while (true) {
    bool busy = false;
    {
      absl::MutexLock turn(&turn_);
      bool ended;
      {
        absl::MutexLock lock(&mutex_);
        ended = ended_.has_value();
      }
      busy = TakeTurn();
      if (ended && !busy) return End();
    }
    if (!busy) Sleep();
  }
}

bool SharedStream::TakeTurn() {
  loans_.TakeBack();
  const bool read = ReadSome();
  if (woken_.exchange(false, std::memory_order_seq_cst)) Pump(What::kAll);
  return GoOnWriting() || read;
}

void SharedStream::End() {
  absl::Status reason;
  std::optional<Outgoing> rest;
  {
    absl::MutexLock lock(&mutex_);
    broken_ = closing_ = true;
    rest.swap(rest_);
    reason = reason_.ok() ? *ended_ : reason_;
  }
  rest.reset();
  loans_.TakeBack();
  if (loans_.any()) lendable_->KeepAll();  // the other side may read on
  loans_.Clear();
  DropQueue();
  over_ = true;
  std::exchange(handler_, nullptr)->OnClosed(shared_from_this(), reason);
}

bool SharedStream::Poll() {
  polled_until_.store(absl::ToUnixNanos(RealClock().Now() + kPolledFor), std::memory_order_seq_cst);
  if (!turn_.TryLock()) return true;  // the thread is at it
  while (!over_ && TakeTurn()) {
  }
  turn_.Unlock();
  return true;
}

void SharedStream::EndPolling() {
  polled_until_.store(0, std::memory_order_seq_cst);
  segment_->own_bell().Wake();
}

void SharedStream::HastenReturns() {
  EndPolling();
  loans_.Hasten();
}

void SharedStream::EndBelow(const absl::Status& status) {
  {
    absl::MutexLock lock(&mutex_);
    ended_ = status;
  }
  WakeThread();
}

void SharedStream::Close(const absl::Status& status) {
  if (!StartClosing(status)) return;
  {
    absl::MutexLock lock(&mutex_);
    close_by_ = RealClock().Now() + kSharedCloseDeadline;
  }
  Pump(What::kAll);
  WakeThread();
}

void SharedStream::Abort() {
  {
    absl::MutexLock lock(&mutex_);
    broken_ = closing_ = true;
  }
  DropQueue();
  below_->Abort();
}

void SharedStream::Pump(What what) {
  while (true) {
    std::vector<Record> records;
    bool close = false;
    {
      absl::MutexLock lock(&mutex_);
      if (broken_ || writing_) return;
      if (HasMessage(what)) {
        writing_ = true;
        records = TakeMessage(what);
      } else if (what == What::kCredit) {
        if (!closing_ && !queue_.HasNext()) return;
        break;  // this thread may hold any lock, also those that late records need
      } else if (closing_ && queue_.empty() && !closed_below_) {
        closed_below_ = close = true;
      } else {
        return;
      }
    }
    if (close) return below_->Close(absl::OkStatus());
    FillLate(records);
    Outgoing message = Frame(std::move(records));
    MoveToArena(message);
    const absl::StatusOr<bool> all = Write(message);
    if (!all.ok()) return Break(all.status());
    if (!*all) return LeaveToThread(std::move(message));
    absl::MutexLock lock(&mutex_);
    writing_ = false;
  }
  WakeThread();
}

std::vector<std::optional<SharedStream::Loan>> SharedStream::Lend(std::span<const Record> records) {
  std::vector<std::optional<Loan>> loans;
  if (lendable_ == nullptr || !segment_->lends()) return loans;
  for (size_t i = 0; i < records.size(); ++i) {
    std::optional<std::vector<LoanPiece>> pieces = FindLoan(records[i], *lendable_);
    if (!pieces) continue;
    const std::optional<uint32_t> number = loans_.Lend(records[i].payload);
    if (!number) break;
    loans.resize(records.size());
    loans[i] = Loan{.head = {.number = *number, .pieces = static_cast<uint32_t>(pieces->size())}, .pieces = *std::move(pieces)};
  }
  return loans;
}

SharedStream::Outgoing SharedStream::Frame(std::vector<Record> records) {
  const std::vector<std::optional<Loan>> loans = Lend(records);
  size_t pieces = 0;
  for (const std::optional<Loan>& loan : loans) pieces += loan ? loan->pieces.size() : 0;
  Outgoing message;
  message.headers.resize(4 + records.size() * kWireHeaderBytes + loans.size() * sizeof(LoanHead) + pieces * sizeof(LoanPiece));
  uint32_t payloads = 0;
  size_t end = 4;
  size_t begin = 0;  // of headers that are in no piece yet
  const auto add = [&](std::span<const std::byte> bytes) {
    if (!bytes.empty()) std::memcpy(message.headers.data() + end, bytes.data(), bytes.size());
    end += bytes.size();
  };
  for (size_t i = 0; i < records.size(); ++i) {
    const Payload& payload = records[i].payload;
    add(Encode(records[i].header));
    if (!loans.empty()) {
      const Loan loan = loans[i].value_or(Loan{});
      add(std::as_bytes(std::span(&loan.head, 1)));
      add(std::as_bytes(std::span(loan.pieces)));
      if (loan.head.pieces > 0) continue;
    }
    if (payload.size() == 0) continue;
    payloads += static_cast<uint32_t>(payload.size());
    message.pieces.emplace_back(message.headers.data() + begin, end - begin);
    begin = end;
    message.pieces.insert(message.pieces.end(), payload.pieces().begin(), payload.pieces().end());
  }
  if (begin < end) message.pieces.emplace_back(message.headers.data() + begin, end - begin);
  const uint32_t length = (static_cast<uint32_t>(end - 4) + payloads) | (loans.empty() ? 0 : kWithLoans);
  std::memcpy(message.headers.data(), &length, sizeof(length));
  message.records = std::move(records);
  return message;
}

void SharedStream::MoveToArena(Outgoing& message) {
  std::array<uint32_t, 2> head{};
  std::memcpy(&head[0], message.headers.data(), sizeof(head[0]));
  const size_t size = head[0];
  if ((head[0] & kWithLoans) != 0 || size < filler_.block_bytes() / 4) return;
  const std::optional<uint32_t> block = filler_.Take(size);
  if (!block) return;
  std::span<std::byte> rest = filler_.At(*block, size);
  size_t skip = sizeof(head[0]);  // the length goes to the ring
  for (const std::span<const std::byte> piece : message.pieces) {
    const std::span<const std::byte> from = piece.subspan(skip);
    if (!from.empty()) std::memcpy(rest.data(), from.data(), from.size());
    rest = rest.subspan(from.size());
    skip = 0;
  }
  head = {head[0] | kInArena, *block};
  message = {};
  message.headers.resize(sizeof(head));
  std::memcpy(message.headers.data(), head.data(), sizeof(head));
  message.pieces.emplace_back(message.headers);
}

absl::StatusOr<bool> SharedStream::Write(Outgoing& message) {
  size_t written = 0;
  bool full = false;
  while (!full && message.piece < message.pieces.size()) {
    const std::span<const std::byte> piece = message.pieces[message.piece].subspan(message.offset);
    TY_ASSIGN_OR_RETURN(const size_t count, writer_.Write(piece));
    written += count;
    full = count < piece.size();
    message.offset = full ? message.offset + count : 0;
    if (!full) ++message.piece;
  }
  if (written > 0) segment_->other_bell().Ring();
  return !full;
}

void SharedStream::LeaveToThread(Outgoing message) {
  {
    absl::MutexLock lock(&mutex_);
    if (broken_) return;
    rest_ = std::move(message);
  }
  WakeThread();
}

bool SharedStream::GoOnWriting() {
  std::optional<Outgoing> message;
  {
    absl::MutexLock lock(&mutex_);
    if (!rest_ || broken_) return false;
    message.swap(rest_);
  }
  const size_t piece = message->piece;
  const size_t offset = message->offset;
  const absl::StatusOr<bool> all = Write(*message);
  if (!all.ok()) {
    Break(all.status());
    return false;
  }
  const bool progress = message->piece != piece || message->offset != offset;
  {
    absl::MutexLock lock(&mutex_);
    if (*all) {
      writing_ = false;
    } else if (!broken_) {
      rest_.swap(message);
    }
    if (progress && closing_) close_by_ = RealClock().Now() + kSharedCloseDeadline;
  }
  if (*all) Pump(What::kAll);
  return progress;
}

bool SharedStream::ReadSome() {
  {
    absl::MutexLock lock(&mutex_);
    if (broken_) return false;
  }
  const size_t before = incoming_.head_bytes + incoming_.filled;
  const absl::StatusOr<bool> whole = ReadInto(incoming_);
  if (!whole.ok()) {
    Break(whole.status());
    return false;
  }
  const bool any = incoming_.head_bytes + incoming_.filled > before;
  if (any && segment_->other_want().load(std::memory_order_seq_cst) != 0) segment_->other_bell().Ring();
  if (*whole) {
    const Incoming message = std::exchange(incoming_, {});
    loans_.TakeBack();  // of what this message answers
    absl::StatusOr<std::vector<Record>> records = Parse(message);
    size_t bytes = message.size;
    if (message.loans && records.ok()) bytes = BytesOf(*records);
    Receive(std::move(records), bytes);
  }
  return any;
}

absl::StatusOr<std::vector<Record>> SharedStream::Parse(const Incoming& message) {
  if (message.loans) {
    const auto borrow = [&](uint32_t number) { return std::make_shared<const BorrowedLoan>(segment_, lent_, number); };
    return ParseLoanMessage({message.copy.get(), message.size}, message.copy,
                            lent_ != nullptr ? lent_->bytes() : std::span<const std::byte>(), borrow);
  }
  absl::StatusOr<std::vector<Record>> records = ParseMessage(message.whole);
  if (records.ok() && message.copy == nullptr) CopyOutOfArena(*records);
  return records;
}

absl::StatusOr<bool> SharedStream::ReadInto(Incoming& message) {
  while (message.size == 0) {
    const std::span<std::byte> head = std::as_writable_bytes(std::span(message.head));
    const bool long_head = message.head_bytes >= sizeof(uint32_t) && (message.head[0] & kInArena) != 0;
    const size_t wanted = long_head ? head.size() : sizeof(uint32_t);
    TY_ASSIGN_OR_RETURN(const size_t count, reader_.Read(head.first(wanted).subspan(message.head_bytes)));
    message.head_bytes += count;
    if (message.head_bytes < wanted) return false;
    if (wanted == head.size() || (message.head[0] & kInArena) == 0) TY_RETURN_IF_ERROR(FindMessage(message));
  }
  if (message.copy == nullptr) return true;
  TY_ASSIGN_OR_RETURN(const size_t count, reader_.Read(std::span(message.copy.get(), message.size).subspan(message.filled)));
  message.filled += count;
  if (message.filled < message.size) return false;
  message.whole = Payload(std::span(message.copy.get(), message.size), message.copy);
  return true;
}

absl::Status SharedStream::FindMessage(Incoming& message) {
  const size_t size = message.head[0] & ~(kInArena | kWithLoans);
  if (size == 0 || size > kLongestMessage) {
    return absl::DataLossError(fmt::format("shared memory: a message of {} bytes, expected 1 to {}", size, kLongestMessage));
  }
  if ((message.head[0] & kInArena) != 0) {
    TY_ASSIGN_OR_RETURN(const std::span<const std::byte> bytes, segment_->Borrower().At(message.head[1], size));
    message.whole = Payload(bytes, std::make_shared<const BorrowedRun>(segment_, message.head[1], size));
  } else {
    message.copy = std::make_shared_for_overwrite<std::byte[]>(size);
    message.loans = (message.head[0] & kWithLoans) != 0;
  }
  message.size = size;
  return absl::OkStatus();
}

void SharedStream::Sleep() {
  absl::Duration at_most = kLongestSleep;
  bool wants_room = false;
  bool broken = false;
  const absl::Time now = RealClock().Now();
  {
    absl::MutexLock lock(&mutex_);
    wants_room = rest_.has_value() && !broken_;
    broken = broken_;
    at_most = std::min(at_most, close_by_ - now);
  }
  if (at_most <= absl::ZeroDuration()) return AbortIfStuck();
  segment_->own_want().store(wants_room ? 1 : 0, std::memory_order_seq_cst);
  if (!wants_room && !broken && polled_until_.load(std::memory_order_seq_cst) > absl::ToUnixNanos(now)) return Rest(at_most);
  segment_->own_bell().Sleep([&] { return IsIdle(wants_room, broken); }, at_most);
}

bool SharedStream::IsIdle(bool wants_room, bool broken) {
  if (woken_.load(std::memory_order_seq_cst) || loans_.due()) return false;
  if (broken) return true;
  if (!turn_.TryLock()) return false;
  const absl::StatusOr<size_t> available = reader_.Available();
  turn_.Unlock();
  if (!available.ok() || *available > 0) return false;
  if (!wants_room) return true;
  const absl::StatusOr<size_t> room = writer_.Room();
  return room.ok() && *room == 0;
}

void SharedStream::Rest(absl::Duration at_most) {
  const int64_t until = polled_until_.load(std::memory_order_seq_cst);
  const auto may_rest = [&] { return !woken_.load(std::memory_order_seq_cst) && polled_until_.load(std::memory_order_seq_cst) >= until; };
  const absl::Duration left = absl::FromUnixNanos(until) - RealClock().Now();
  segment_->own_bell().Rest(may_rest, std::clamp(left, absl::ZeroDuration(), at_most));
}

void SharedStream::AbortIfStuck() {
  {
    absl::MutexLock lock(&mutex_);
    if (RealClock().Now() < close_by_) return;
    close_by_ = absl::InfiniteFuture();
  }
  Abort();
}

void SharedStream::Break(const absl::Status& why) {
  {
    absl::MutexLock lock(&mutex_);
    if (broken_) return;
    broken_ = closing_ = true;
    if (reason_.ok()) reason_ = why;
  }
  DropQueue();
  below_->Close(why);
}

void SharedStream::WakeThread() {
  woken_.store(true, std::memory_order_seq_cst);
  segment_->own_bell().Wake();
}

}  // namespace trainyard::engine
