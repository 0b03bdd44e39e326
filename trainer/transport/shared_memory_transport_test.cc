// How the ends of a stream find out whether they share memory, and peers that do it wrong. The
// promises of the stream itself are in transport_test.cc.
#include "trainer/transport/shared_memory_transport.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "trainer/base/notification.h"
#include "trainer/transport/grpc_transport.h"
#include "trainer/transport/loan_message.h"
#include "trainer/transport/shared_segment.h"
#include "trainer/transport/test_deadline.h"
#include "trainer/transport/test_inbox.h"

namespace trainyard::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Record MakeRecord(WireOp op, uint64_t step, Payload payload = {}) {
  Record record;
  record.header.op = op;
  record.header.step = step;
  record.header.length = static_cast<uint32_t>(payload.size());
  record.payload = std::move(payload);
  return record;
}

// A peer without the layer under test: keeps the stream, what arrives and how the stream ended.
class RawPeer final : public StreamHandler {
 public:
  void OnMessage(const std::shared_ptr<Stream>& stream, std::span<Record> records) override {
    absl::MutexLock lock(&mutex_);
    stream_ = stream;
    ++messages_;
    for (Record& record : records) records_.push_back(record);
  }
  void OnClosed(const std::shared_ptr<Stream>& /*stream*/, const absl::Status& status) override {
    absl::MutexLock lock(&mutex_);
    stream_ = nullptr;
    closed_ = true;
    status_ = status;
  }
  std::vector<Record> AwaitRecords(size_t count) {
    const auto enough = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return records_.size() >= count; };
    absl::MutexLock lock(&mutex_);
    mutex_.AwaitWithTimeout(absl::Condition(&enough), kSoon);
    return records_;
  }
  absl::Status AwaitClosed() {
    absl::MutexLock lock(&mutex_);
    if (!mutex_.AwaitWithTimeout(absl::Condition(&closed_), kSoon)) return absl::InternalError("never closed");
    return status_;
  }
  std::shared_ptr<Stream> stream() {
    absl::MutexLock lock(&mutex_);
    return stream_;
  }
  int messages() {
    absl::MutexLock lock(&mutex_);
    return messages_;
  }
  void ForgetRecords() {
    std::vector<Record> records;
    absl::MutexLock lock(&mutex_);
    records.swap(records_);
  }

 private:
  absl::Mutex mutex_;
  std::shared_ptr<Stream> stream_ ABSL_GUARDED_BY(mutex_);
  int messages_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<Record> records_ ABSL_GUARDED_BY(mutex_);
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
};

class SharedMemoryOverGrpcTest : public ::testing::Test {
 protected:
  SharedMemoryOverGrpcTest() { listener_ = shared_->Listen("127.0.0.1:0", inbox_).value(); }
  ~SharedMemoryOverGrpcTest() override {
    network_.reset();
    listener_.reset();
  }
  // A stream to the listener from a peer without the layer.
  std::shared_ptr<Stream> DialRaw() { return network_->Dial(listener_->address(), raw_, kSoon); }
  // The same, as far as both share the memory of `segment`.
  std::shared_ptr<Stream> Meet(const SharedSegment& segment) {
    std::shared_ptr<Stream> stream = DialRaw();
    stream->Send({MakeRecord(WireOp::kOffer, 0, ToPayload(segment.Offer().value()))});
    const std::vector<Record> answer = raw_->AwaitRecords(1);
    EXPECT_EQ(answer.size(), 1U);
    EXPECT_EQ(answer[0].header.op, WireOp::kShare);
    EXPECT_EQ(answer[0].payload.size(), sizeof(SegmentToken));
    return stream;
  }
  static void Put(const SharedSegment& segment, std::span<const std::byte> bytes) {
    RingWriter writer = segment.Writer();
    EXPECT_EQ(writer.Write(bytes).value(), bytes.size());
    segment.other_bell().Ring();
  }

  std::unique_ptr<Transport> shared_ = MakeSharedMemoryTransport(MakeGrpcTransport());
  std::unique_ptr<Transport> network_ = MakeGrpcTransport();
  std::shared_ptr<Inbox> inbox_ = std::make_shared<Inbox>(/*echo=*/true);
  std::shared_ptr<RawPeer> raw_ = std::make_shared<RawPeer>();
  std::unique_ptr<Listener> listener_;
};

// A message with one record, as it lies in a ring: the length, then the record.
std::vector<std::byte> PullMessage(uint64_t step) {
  const auto header = Encode(MakeRecord(WireOp::kPull, step).header);
  std::vector<std::byte> message(4 + header.size());
  message[0] = std::byte{kWireHeaderBytes};
  std::memcpy(message.data() + 4, header.data(), header.size());
  return message;
}

// The same for a record in the arena: the ring has its length and its first block.
std::vector<std::byte> PlaceOf(uint32_t block, uint32_t length) {
  const std::array<uint32_t, 2> head = {length | (uint32_t{1} << 31), block};
  const std::span<const std::byte> bytes = std::as_bytes(std::span(head));
  return {bytes.begin(), bytes.end()};
}

class ArenaOverGrpcTest : public SharedMemoryOverGrpcTest {
 protected:
  ArenaOverGrpcTest() {
    listener_ = shared_->Listen("127.0.0.1:0", keeper_).value();
    stream_ = Meet(*segment_);
  }
  // Sends a record with 1000 letters; returns where they lie.
  std::span<std::byte> PutLetters(WireOp op, uint8_t dtype) {
    Record record = MakeRecord(op, 1, Payload::OfText(std::string(1000, 'a')));
    record.header.dtype = dtype;
    const auto header = Encode(record.header);
    const uint32_t size = kWireHeaderBytes + 1000;
    const uint32_t block = segment_->Filler().Take(size).value();
    const std::span<std::byte> run = segment_->Filler().At(block, size);
    std::ranges::copy(header, run.begin());
    std::ranges::fill(run.subspan(header.size()), std::byte{'a'});
    PutNext(PlaceOf(block, size));
    return run.subspan(header.size());
  }
  void PutNext(std::span<const std::byte> bytes) {
    EXPECT_EQ(writer_.Write(bytes).value(), bytes.size());
    segment_->other_bell().Ring();
  }
  bool ArenaIsFree() { return segment_->Filler().Take(SharedSegment::kArenaRings * kRing).has_value(); }

  static constexpr uint32_t kRing = 4096;
  const std::unique_ptr<SharedSegment> segment_ = SharedSegment::Create(kRing).value();
  RingWriter writer_ = segment_->Writer();
  const std::shared_ptr<RawPeer> keeper_ = std::make_shared<RawPeer>();
  std::shared_ptr<Stream> stream_;
};

TEST_F(ArenaOverGrpcTest, ATensorLiesInTheArenaUntilItIsReleased) {
  PutLetters(WireOp::kSum, /*dtype=*/0);
  EXPECT_EQ(keeper_->AwaitRecords(1).at(0).payload.ToString(), std::string(1000, 'a'));
  EXPECT_FALSE(ArenaIsFree());
  keeper_->ForgetRecords();
  PutNext(PullMessage(2));  // the stream has let go of the first before it hands out the second
  ASSERT_EQ(keeper_->AwaitRecords(1).size(), 1U);
  EXPECT_TRUE(ArenaIsFree());
}

TEST_F(ArenaOverGrpcTest, TheSenderCannotChangeAPayloadThatIsParsed) {
  for (const WireOp op : {WireOp::kHello, WireOp::kJoin}) {
    const std::span<std::byte> sent = PutLetters(op, kWireDTypeNone);
    const std::vector<Record> records = keeper_->AwaitRecords(1);
    std::ranges::fill(sent, std::byte{'b'});
    EXPECT_EQ(records.at(0).payload.ToString(), std::string(1000, 'a')) << WireOpName(op);
    keeper_->ForgetRecords();
  }
}

TEST_F(ArenaOverGrpcTest, ARunOutsideTheArenaEndsTheStream) {
  PutNext(PlaceOf(kArenaBlocks, 100));
  const absl::Status status = raw_->AwaitClosed();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()), HasSubstr("100 bytes at block 64, expected a run inside 64 blocks of 256 bytes"));
}

// Two ends that lend each other memory. `keeper_` holds what comes to the listener.
class LoansOverGrpcTest : public ::testing::Test {
 protected:
  LoansOverGrpcTest() {
    stream_->Send({MakeRecord(WireOp::kPull, 0)});  // the first message of a stream is a short one
    EXPECT_EQ(keeper_->AwaitRecords(1).size(), 1U);
    keeper_->ForgetRecords();
  }
  ~LoansOverGrpcTest() override {
    stream_->Abort();
    dialler_.reset();
    listener_.reset();
  }
  // Sends all values of `memory_`; `released_` tells when nothing of the sender's side keeps them.
  void SendValues(WireOp op, uint64_t step = 1) {
    released_ = std::make_shared<Notification>();
    std::shared_ptr<const void> owner(nullptr, [released = released_](const void* /*nothing*/) { released->Notify(); });
    const std::span<const std::byte> bytes(values_.get(), kBytes);
    Record record = MakeRecord(op, step, Payload({bytes.first(kBytes / 2), bytes.subspan(kBytes / 2)}, std::move(owner)));
    record.header.dtype = 0;
    stream_->Send({std::move(record)});
  }
  bool IsReleased() const { return released_->HasBeenNotified(); }
  bool IsReleasedSoon() const { return released_->WaitForNotificationWithTimeout(kSoon); }

  static constexpr size_t kBytes = 512 << 10;
  const std::shared_ptr<LendableMemory> memory_ = LendableMemory::Create(kBytes).value();
  const std::shared_ptr<std::byte> values_ = memory_->Take(kBytes);
  const std::shared_ptr<RawPeer> keeper_ = std::make_shared<RawPeer>();
  const std::shared_ptr<Inbox> inbox_ = std::make_shared<Inbox>();
  std::unique_ptr<Transport> listening_ = MakeSharedMemoryTransport(MakeGrpcTransport());
  std::unique_ptr<Transport> dialler_ = MakeSharedMemoryTransport(MakeGrpcTransport(), {.lendable = memory_});
  std::unique_ptr<Listener> listener_ = listening_->Listen("127.0.0.1:0", keeper_).value();
  std::shared_ptr<Stream> stream_ = dialler_->Dial(listener_->address(), inbox_, kSoon);
  std::shared_ptr<Notification> released_;
};

TEST_F(LoansOverGrpcTest, ValuesInLendableMemoryAreReadWhereTheyLie) {
  SendValues(WireOp::kResult);
  const std::vector<Record> records = keeper_->AwaitRecords(1);
  ASSERT_EQ(records.size(), 1U);
  ASSERT_EQ(records[0].payload.size(), kBytes);
  values_.get()[kBytes - 1] = std::byte{'z'};  // no copy was made
  EXPECT_EQ(records[0].payload.ToString().back(), 'z');
  // A grant of the sender may still be on its way.
  const absl::Time deadline = absl::Now() + kSoon;
  while (keeper_->stream()->traffic().bytes_received != stream_->traffic().bytes_sent && absl::Now() < deadline) std::this_thread::yield();
  EXPECT_EQ(keeper_->stream()->traffic().bytes_received, stream_->traffic().bytes_sent);
}

TEST_F(LoansOverGrpcTest, TheSenderHearsAtOnceOfTheReturnThatItAwaits) {
  for (const bool hastens_first : {true, false}) {
    SendValues(WireOp::kResult);
    ASSERT_EQ(keeper_->AwaitRecords(1).size(), 1U);
    if (hastens_first) stream_->HastenReturns();
    EXPECT_FALSE(IsReleased());
    keeper_->ForgetRecords();
    if (!hastens_first) stream_->HastenReturns();
    EXPECT_TRUE(IsReleasedSoon());
  }
}

TEST_F(LoansOverGrpcTest, APayloadIsTakenBackWhenTheAnswerComes) {
  SendValues(WireOp::kSum);
  ASSERT_EQ(keeper_->AwaitRecords(1).size(), 1U);
  EXPECT_FALSE(IsReleased());
  keeper_->ForgetRecords();
  keeper_->stream()->Send({MakeRecord(WireOp::kPull, 9)});
  ASSERT_THAT(inbox_->AwaitSteps(1), ElementsAre(9));
  EXPECT_TRUE(IsReleasedSoon());
}

TEST_F(LoansOverGrpcTest, TheEndOfTheStreamEndsItsLoans) {
  SendValues(WireOp::kResult);
  const std::vector<Record> records = keeper_->AwaitRecords(1);
  ASSERT_EQ(records.size(), 1U);
  stream_->Abort();
  EXPECT_TRUE(IsReleasedSoon());
  EXPECT_EQ(records[0].payload.size(), kBytes);  // stays mapped with its receiver
  EXPECT_EQ(records[0].payload.ToString()[0], '\0');
}

TEST_F(LoansOverGrpcTest, MoreThanCanBeLentIsCopied) {
  stream_->SetWindow(1 << 20);
  keeper_->stream()->SetWindow(size_t{2 * kMostLoans} * kBytes);
  for (uint64_t step = 1; step <= kMostLoans + 2; ++step) SendValues(WireOp::kResult, step);
  EXPECT_EQ(keeper_->AwaitRecords(kMostLoans + 2).size(), kMostLoans + 2);
}

TEST_F(SharedMemoryOverGrpcTest, ALoanOfMemoryThatIsNotLentEndsTheStream) {
  const std::unique_ptr<SharedSegment> segment = SharedSegment::Create(4096).value();
  const std::shared_ptr<Stream> stream = Meet(*segment);
  Record record = MakeRecord(WireOp::kSum, 1);
  record.header.dtype = 0;
  record.header.length = 64;
  std::vector<std::byte> message(4);
  const auto add = [&](std::span<const std::byte> bytes) { message.insert(message.end(), bytes.begin(), bytes.end()); };
  add(Encode(record.header));
  const LoanHead head = {.number = 0, .pieces = 1};
  add(std::as_bytes(std::span(&head, 1)));
  const LoanPiece piece = {.offset = 0, .bytes = 64};
  add(std::as_bytes(std::span(&piece, 1)));
  const uint32_t length = static_cast<uint32_t>(message.size() - 4) | (1U << 30);
  std::memcpy(message.data(), &length, sizeof(length));
  Put(*segment, message);
  const absl::Status status = inbox_->AwaitClosed();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("64 bytes at 0 are lent of 0"));
}

TEST_F(SharedMemoryOverGrpcTest, AReceiverMayHoldMoreThanTheArenaHas) {
  const auto keeper = std::make_shared<RawPeer>();
  const std::unique_ptr<Listener> listener = shared_->Listen("127.0.0.1:0", keeper).value();
  const std::shared_ptr<Stream> stream = shared_->Dial(listener->address(), inbox_, kSoon);
  stream->Send({MakeRecord(WireOp::kPull, 0)});  // the first message of a stream is a short one
  ASSERT_EQ(keeper->AwaitRecords(1).size(), 1U);
  keeper->ForgetRecords();
  const auto bytes = std::make_shared<const std::vector<std::byte>>(size_t{1} << 20, std::byte{7});
  constexpr size_t kRecords = 9;
  for (size_t i = 0; i < kRecords; ++i) {
    Record record = MakeRecord(WireOp::kSum, i, Payload(*bytes, bytes));
    record.header.dtype = 0;
    stream->Send({std::move(record)});
  }
  const std::vector<Record> records = keeper->AwaitRecords(kRecords);
  ASSERT_EQ(records.size(), kRecords);
  for (size_t i = 0; i < kRecords; ++i) {
    EXPECT_EQ(records[i].header.step, i);
    std::vector<std::byte> found(bytes->size());
    PayloadReader(records[i].payload).Read(found);
    EXPECT_EQ(found, *bytes) << i;
  }
  stream->Close(absl::OkStatus());
}

TEST_F(SharedMemoryOverGrpcTest, BytesTravelThroughTheMemoryThatIsOffered) {
  const std::unique_ptr<SharedSegment> segment = SharedSegment::Create(4096).value();
  const std::shared_ptr<Stream> stream = Meet(*segment);
  Put(*segment, PullMessage(7));
  EXPECT_THAT(inbox_->AwaitSteps(1), ElementsAre(7));
}

TEST_F(SharedMemoryOverGrpcTest, WithAnotherMachineItGoesOnOverTheNetwork) {
  const std::unique_ptr<SharedSegment> segment = SharedSegment::Create(4096).value();
  SegmentOffer offer = segment->Offer().value();
  offer.machine.boot[0] ^= 1;
  const std::shared_ptr<Stream> stream = DialRaw();
  stream->Send({MakeRecord(WireOp::kOffer, 0, ToPayload(offer))});
  const std::vector<Record> answer = raw_->AwaitRecords(1);
  ASSERT_EQ(answer.size(), 1U);
  EXPECT_EQ(answer[0].header.op, WireOp::kShare);
  EXPECT_EQ(answer[0].payload.size(), 0U);
  stream->Send({MakeRecord(WireOp::kPull, 1), MakeRecord(WireOp::kPull, 2)});
  EXPECT_THAT(inbox_->AwaitSteps(2), ElementsAre(1, 2));
  EXPECT_EQ(raw_->AwaitRecords(3).size(), 3U) << "both come back";
}

TEST_F(SharedMemoryOverGrpcTest, WithoutMemoryItGoesOnOverTheNetwork) {
  const std::shared_ptr<Stream> stream = DialRaw();
  stream->Send({MakeRecord(WireOp::kOffer, 0), MakeRecord(WireOp::kPull, 1)});
  EXPECT_THAT(inbox_->AwaitSteps(1), ElementsAre(1));
}

// A listener without memory to share; the dialler is under test.
TEST_F(SharedMemoryOverGrpcTest, ADiallerWhoseOfferIsDeclinedSendsWhatHasWaited) {
  class Declining final : public StreamHandler {
   public:
    explicit Declining(std::shared_ptr<Inbox> inbox) : inbox_(std::move(inbox)) {}
    void OnMessage(const std::shared_ptr<Stream>& stream, std::span<Record> records) override {
      if (records.front().header.op == WireOp::kOffer) {
        stream->Send({MakeRecord(WireOp::kShare, 0)});
        records = records.subspan(1);
      }
      if (!records.empty()) inbox_->OnMessage(stream, records);
    }
    void OnClosed(const std::shared_ptr<Stream>& stream, const absl::Status& status) override { inbox_->OnClosed(stream, status); }

   private:
    const std::shared_ptr<Inbox> inbox_;
  };
  const auto far = std::make_shared<Inbox>();
  const std::unique_ptr<Listener> declining = network_->Listen("127.0.0.1:0", std::make_shared<Declining>(far)).value();
  const auto near = std::make_shared<Inbox>();
  const std::shared_ptr<Stream> stream = shared_->Dial(declining->address(), near, kSoon);
  stream->Send({MakeRecord(WireOp::kPull, 1)});
  stream->Send({MakeRecord(WireOp::kPull, 2)});
  stream->Close(absl::OkStatus());
  EXPECT_THAT(far->AwaitSteps(2), ElementsAre(1, 2));
  EXPECT_TRUE(far->AwaitClosed().ok());
  EXPECT_TRUE(near->AwaitClosed().ok());
}

TEST_F(SharedMemoryOverGrpcTest, RecordsThatWaitForTheMeetingStillWaitForMore) {
  const std::unique_ptr<Listener> listener = network_->Listen("127.0.0.1:0", raw_).value();
  const auto near = std::make_shared<Inbox>();
  const std::shared_ptr<Stream> stream = shared_->Dial(listener->address(), near, kSoon);
  stream->Send({MakeRecord(WireOp::kPull, 1)}, /*more=*/true);
  ASSERT_EQ(raw_->AwaitRecords(1).size(), 1U);  // the offer
  raw_->stream()->Send({MakeRecord(WireOp::kShare, 0), MakeRecord(WireOp::kPull, 9)});
  ASSERT_THAT(near->AwaitSteps(1), ElementsAre(9));  // the ends have met
  stream->Send({MakeRecord(WireOp::kPull, 2)});
  EXPECT_EQ(raw_->AwaitRecords(3).size(), 3U);
  EXPECT_EQ(raw_->messages(), 2) << "the offer, then both records";
}

TEST_F(SharedMemoryOverGrpcTest, AFirstRecordThatOffersNothingIsNamed) {
  DialRaw()->Send({MakeRecord(WireOp::kPull, 1)});
  const absl::Status status = raw_->AwaitClosed();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("the first record of a stream is 'pull', expected 'offer'"));
}

TEST_F(SharedMemoryOverGrpcTest, AnOfferOfAnotherLengthIsNamed) {
  DialRaw()->Send({MakeRecord(WireOp::kOffer, 0, Payload::OfText("memory"))});
  EXPECT_THAT(std::string(raw_->AwaitClosed().message()), HasSubstr("'offer' has 6 bytes"));
}

TEST_F(SharedMemoryOverGrpcTest, ARecordBesideTheMemoryEndsTheStream) {
  const std::unique_ptr<SharedSegment> segment = SharedSegment::Create(4096).value();
  Meet(*segment)->Send({MakeRecord(WireOp::kPull, 1)});
  EXPECT_THAT(std::string(raw_->AwaitClosed().message()), HasSubstr("a record beside the shared memory"));
  EXPECT_FALSE(inbox_->AwaitClosed().ok() && !inbox_->steps().empty());
}

TEST_F(SharedMemoryOverGrpcTest, AMessageOfNoLengthOrTooLongALengthEndsTheStream) {
  for (const uint32_t length : {uint32_t{0}, uint32_t{(1U << 30) - 1}}) {
    raw_ = std::make_shared<RawPeer>();
    const std::unique_ptr<SharedSegment> segment = SharedSegment::Create(4096).value();
    const std::shared_ptr<Stream> stream = Meet(*segment);
    Put(*segment, std::as_bytes(std::span(&length, 1)));
    const absl::Status status = raw_->AwaitClosed();
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
    EXPECT_THAT(std::string(status.message()), HasSubstr("a message of " + std::to_string(length) + " bytes"));
  }
}

TEST_F(SharedMemoryOverGrpcTest, BytesThatAreNoMessageEndTheStreamWithTheFieldThatIsWrong) {
  const std::unique_ptr<SharedSegment> segment = SharedSegment::Create(4096).value();
  const std::shared_ptr<Stream> stream = Meet(*segment);
  std::vector<std::byte> message(4 + kWireHeaderBytes);
  message[0] = std::byte{kWireHeaderBytes};
  Put(*segment, message);
  (void)inbox_->AwaitClosed();
  EXPECT_TRUE(inbox_->steps().empty());
}

TEST_F(SharedMemoryOverGrpcTest, APeerThatDiesAmidAMessageIsLost) {
  const std::unique_ptr<SharedSegment> segment = SharedSegment::Create(4096).value();
  const std::shared_ptr<Stream> stream = Meet(*segment);
  const uint32_t length = 1000;
  Put(*segment, std::as_bytes(std::span(&length, 1)));
  stream->Abort();
  EXPECT_EQ(inbox_->AwaitClosed().code(), absl::StatusCode::kUnavailable);
}

TEST_F(SharedMemoryOverGrpcTest, WhatHasComeBeforeThePeerDiedIsHeard) {
  const std::unique_ptr<SharedSegment> segment = SharedSegment::Create(4096).value();
  const std::shared_ptr<Stream> stream = Meet(*segment);
  const std::vector<std::byte> message = PullMessage(9);
  RingWriter writer = segment->Writer();
  ASSERT_EQ(writer.Write(message).value(), message.size());  // and nobody rings
  stream->Abort();
  (void)inbox_->AwaitClosed();
  EXPECT_THAT(inbox_->steps(), ElementsAre(9));
}

}  // namespace
}  // namespace trainyard::engine
