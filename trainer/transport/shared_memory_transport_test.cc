// How the ends of a stream find out whether they share memory, and peers that do it wrong. The
// promises of the stream itself are in transport_test.cc.
#include "trainer/transport/shared_memory_transport.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "trainer/transport/grpc_transport.h"
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
  for (const uint32_t length : {uint32_t{0}, uint32_t{std::numeric_limits<int32_t>::max()}}) {
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
