// A stream whose messages travel through memory that both ends share. The stream below it, over
// which the ends have found each other, stays open. Its end is this stream's end, so a process that
// dies is noticed as over any network.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "trainer/transport/flow_stream.h"
#include "trainer/transport/loan_book.h"
#include "trainer/transport/loan_message.h"
#include "trainer/transport/shared_segment.h"

namespace trainyard::engine {

// A message in the ring is its length, 4 bytes, then its records as framing.h has them. The sender
// copies into the ring. The stream's thread copies out of it, so that the ring is always emptied,
// and goes on with messages that did not fit.
//
// A long message goes to the arena where that has room: the ring has its length with kInArena, then
// the number of its first block. Tensors stay there until their payloads are released, so whoever
// adds or copies them reads them where the sender has put them. A receiver that holds payloads for
// long fills the arena, never the ring.
//
// A long payload that lies in memory which this side lends is not copied at all: a message with
// kWithLoans tells its place (loan_message.h). It is kept as it is until the receiver has released
// it.
class SharedStream final : public FlowStream {
 public:
  // `first_message_bytes`: a longer first message ends the stream. `lendable`: what the segment
  // tells of, or null.
  SharedStream(std::string peer, std::shared_ptr<StreamHandler> handler, size_t window_bytes, size_t first_message_bytes,
               std::unique_ptr<SharedSegment> segment, std::shared_ptr<LendableMemory> lendable, std::shared_ptr<Stream> below);

  // The work of the stream's thread. Everything that the handler hears comes from it, or from a
  // caller of Poll: whoever of them has `turn_`. Returns after OnClosed.
  void Run();
  // The stream below has ended. Records that came before are still read.
  void EndBelow(const absl::Status& status);

  void Close(const absl::Status& status) override;
  void Abort() override;
  void Trust() override { below_->Trust(); }
  void HastenReturns() override;
  bool Poll() override;
  void EndPolling() override;
  bool shares_memory() const override { return true; }

 private:
  // A message on its way into the ring.
  struct Outgoing {
    std::vector<Record> records;  // keep the pieces alive
    std::vector<std::byte> headers;
    std::vector<std::span<const std::byte>> pieces;
    size_t piece = 0;   // the next one
    size_t offset = 0;  // in it
  };
  struct Loan {
    LoanHead head;
    std::vector<LoanPiece> pieces;
  };
  // A message on its way out of the ring.
  struct Incoming {
    std::array<uint32_t, 2> head;  // its length; in the arena: its first block too
    size_t head_bytes = 0;
    std::shared_ptr<std::byte[]> copy;  // of a message in the ring
    bool loans = false;
    size_t size = 0;
    size_t filled = 0;
    Payload whole;  // once all is there
  };

  void Pump(What what) override;
  Outgoing Frame(std::vector<Record> records);
  // By record: its pieces where it can be lent, and is from now on.
  std::vector<std::optional<Loan>> Lend(std::span<const Record> records);
  // Leaves the message in the arena, where that has room, and the place of it for the ring.
  void MoveToArena(Outgoing& message);
  // Copies what there is room for; whether that was all.
  absl::StatusOr<bool> Write(Outgoing& message);
  // Hands the rest to the stream's thread.
  void LeaveToThread(Outgoing message);
  // Reads and writes what can be, once: whether that was anything.
  bool TakeTurn() ABSL_EXCLUSIVE_LOCKS_REQUIRED(turn_);
  bool GoOnWriting() ABSL_EXCLUSIVE_LOCKS_REQUIRED(turn_);
  bool ReadSome() ABSL_EXCLUSIVE_LOCKS_REQUIRED(turn_);
  // The last turn.
  void End() ABSL_EXCLUSIVE_LOCKS_REQUIRED(turn_);
  absl::StatusOr<bool> ReadInto(Incoming& message) ABSL_EXCLUSIVE_LOCKS_REQUIRED(turn_);
  // Of a whole head: takes the message from the arena, or makes room for a copy.
  absl::Status FindMessage(Incoming& message);
  absl::StatusOr<std::vector<Record>> Parse(const Incoming& message);
  // Of the thread, until there is something to do.
  void Sleep();
  // Nothing is to be done now, as far as can be seen.
  bool IsIdle(bool wants_room, bool broken);
  // While somebody polls.
  void Rest(absl::Duration at_most);
  // Ends the stream where closing it has taken too long.
  void AbortIfStuck();
  // The rings cannot be trusted any more.
  void Break(const absl::Status& why);
  void WakeThread();

  const std::shared_ptr<SharedSegment> segment_;    // also of payloads that lie in it
  const std::shared_ptr<LendableMemory> lendable_;  // this side's
  const std::shared_ptr<const LentMemory> lent_;    // the other side's
  const std::shared_ptr<Stream> below_;
  LoanBook loans_;
  RingWriter writer_;   // of the thread that has set writing_
  ArenaWriter filler_;  // likewise
  std::atomic<bool> woken_ = false;
  std::atomic<int64_t> polled_until_ = 0;  // nanoseconds since 1970

  absl::Mutex turn_ ABSL_ACQUIRED_BEFORE(mutex_);
  RingReader reader_ ABSL_GUARDED_BY(turn_);
  Incoming incoming_ ABSL_GUARDED_BY(turn_);
  bool over_ ABSL_GUARDED_BY(turn_) = false;  // OnClosed was called

  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  std::optional<Outgoing> rest_ ABSL_GUARDED_BY(mutex_);  // writing_ is the thread's
  bool broken_ ABSL_GUARDED_BY(mutex_) = false;           // nothing is written or read any more
  bool closed_below_ ABSL_GUARDED_BY(mutex_) = false;
  std::optional<absl::Status> ended_ ABSL_GUARDED_BY(mutex_);  // the stream below, and how
  absl::Time close_by_ ABSL_GUARDED_BY(mutex_) = absl::InfiniteFuture();
};

}  // namespace trainyard::engine
