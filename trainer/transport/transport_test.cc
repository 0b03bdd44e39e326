// One suite for every transport: what a stream promises.
#include "trainer/transport/transport.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <numeric>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "trainer/transport/grpc_transport.h"
#include "trainer/transport/inproc_transport.h"
#include "trainer/transport/shared_memory_transport.h"
#include "trainer/transport/test_deadline.h"

namespace trainyard::engine {
namespace {

using ::testing::HasSubstr;

// Keeps what arrives; answers nothing unless told to echo.
class Recorder final : public StreamHandler {
 public:
  explicit Recorder(bool echo = false) : echo_(echo) {}

  void OnMessage(const std::shared_ptr<Stream>& stream, std::span<Record> records) override {
    std::vector<Record> answers;
    {
      absl::MutexLock lock(&mutex_);
      stream_ = stream;
      ++messages_;
      for (Record& record : records) received_.push_back(record);
    }
    if (echo_) stream->Send({records.begin(), records.end()});
  }
  void OnClosed(const std::shared_ptr<Stream>& /*stream*/, const absl::Status& status) override {
    absl::MutexLock lock(&mutex_);
    stream_ = nullptr;
    ++closed_;
    status_ = status;
  }

  bool AwaitRecords(size_t count) {
    const auto enough = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return received_.size() >= count; };
    absl::MutexLock lock(&mutex_);
    return mutex_.AwaitWithTimeout(absl::Condition(&enough), kSoon);
  }
  absl::Status AwaitClosed() {
    const auto is_closed = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return closed_ > 0; };
    absl::MutexLock lock(&mutex_);
    if (!mutex_.AwaitWithTimeout(absl::Condition(&is_closed), kSoon)) return absl::InternalError("never closed");
    EXPECT_EQ(closed_, 1);
    return status_;
  }
  std::vector<Record> received() {
    absl::MutexLock lock(&mutex_);
    return received_;
  }
  bool AwaitOp(WireOp op) {
    const auto found = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      return std::ranges::any_of(received_, [op](const Record& record) { return record.header.op == op; });
    };
    absl::MutexLock lock(&mutex_);
    return mutex_.AwaitWithTimeout(absl::Condition(&found), kSoon);
  }
  std::vector<Record> Take() {
    absl::MutexLock lock(&mutex_);
    return std::exchange(received_, {});
  }
  void Forget() {
    absl::MutexLock lock(&mutex_);
    received_.clear();
  }
  int messages() {
    absl::MutexLock lock(&mutex_);
    return messages_;
  }
  std::shared_ptr<Stream> stream() {
    absl::MutexLock lock(&mutex_);
    return stream_;
  }

 private:
  const bool echo_;
  absl::Mutex mutex_;
  std::vector<Record> received_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<Stream> stream_ ABSL_GUARDED_BY(mutex_);
  int messages_ ABSL_GUARDED_BY(mutex_) = 0;
  int closed_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
};

Record MakeRecord(uint64_t step, Payload payload = {}) {
  Record record;
  record.header.op = WireOp::kPush;
  record.header.step = step;
  record.header.length = static_cast<uint32_t>(payload.size());
  record.payload = std::move(payload);
  return record;
}

Record ControlRecord(uint64_t step) {
  Record record;
  record.header.op = WireOp::kPull;
  record.header.step = step;
  return record;
}

struct Kind {
  std::string name;
  std::unique_ptr<Transport> (*make)(const FlowOptions& flow);
  std::string address;
};

class TransportTest : public ::testing::TestWithParam<Kind> {
 protected:
  void SetUp() override {
    transport_ = GetParam().make(flow_);
    absl::StatusOr<std::unique_ptr<Listener>> listener = transport_->Listen(GetParam().address, far_);
    ASSERT_TRUE(listener.ok()) << listener.status();
    listener_ = *std::move(listener);
  }
  // Starts again, with another window or handler.
  void Restart(const FlowOptions& flow) {
    listener_.reset();
    transport_.reset();
    flow_ = flow;
    SetUp();
  }
  std::shared_ptr<Stream> Dial() { return transport_->Dial(listener_->address(), near_, absl::Seconds(5)); }

  FlowOptions flow_{.first_message_bytes = 8 << 20};  // most tests begin with what they test
  std::shared_ptr<Recorder> far_ = std::make_shared<Recorder>(/*echo=*/true);
  std::shared_ptr<Recorder> near_ = std::make_shared<Recorder>();
  std::unique_ptr<Transport> transport_;
  std::unique_ptr<Listener> listener_;
};

TEST_P(TransportTest, RecordsArriveInOrderWithTheirBytes) {
  const auto values = std::make_shared<std::vector<float>>(300'000);
  std::iota(values->begin(), values->end(), 0.0F);
  const std::shared_ptr<Stream> stream = Dial();
  for (uint64_t step = 0; step < 20; ++step)
    stream->Send({MakeRecord(step, Payload(std::as_bytes(std::span(*values)).first(4 * (step * 13'000 + 1)), values))});
  ASSERT_TRUE(near_->AwaitRecords(20));
  const std::vector<Record> records = near_->received();
  for (uint64_t step = 0; step < 20; ++step) {
    ASSERT_EQ(records[step].header.step, step);
    std::vector<float> copy(step * 13'000 + 1);
    ASSERT_EQ(records[step].payload.size(), copy.size() * 4);
    PayloadReader(records[step].payload).Read(std::as_writable_bytes(std::span(copy)));
    ASSERT_TRUE(std::equal(copy.begin(), copy.end(), values->begin()));
  }
}

TEST_P(TransportTest, RecordsSentWithMoreShareAMessage) {
  const std::shared_ptr<Stream> stream = Dial();
  stream->Send({ControlRecord(0)});
  ASSERT_TRUE(near_->AwaitRecords(1));
  stream->Send({ControlRecord(1)}, /*more=*/true);
  stream->Send({ControlRecord(2), ControlRecord(3)}, /*more=*/true);
  stream->Send({ControlRecord(4)});
  ASSERT_TRUE(near_->AwaitRecords(5));
  EXPECT_EQ(far_->messages(), 2);
  EXPECT_EQ(stream->traffic().messages_sent, 2);
  EXPECT_EQ(stream->traffic().bytes_sent, 5 * 64);
}

TEST_P(TransportTest, ClosingSendsWhatIsQueuedFirst) {
  const std::shared_ptr<Stream> stream = Dial();
  stream->Send({MakeRecord(1)}, /*more=*/true);
  stream->Close(absl::OkStatus());
  EXPECT_TRUE(near_->AwaitClosed().ok());
  EXPECT_TRUE(far_->AwaitClosed().ok());
  EXPECT_EQ(far_->received().size(), 1U);
  stream->Send({MakeRecord(2)});  // dropped
}

TEST_P(TransportTest, TheListeningSideTellsWhyItClosed) {
  const std::shared_ptr<Stream> stream = Dial();
  stream->Send({MakeRecord(1)});
  ASSERT_TRUE(near_->AwaitRecords(1));
  far_->stream()->Close(absl::FailedPreconditionError("another model"));
  EXPECT_EQ(near_->AwaitClosed(), absl::FailedPreconditionError("another model"));
}

TEST_P(TransportTest, TheDiallingSideTellsWhyItClosed) {
  const std::shared_ptr<Stream> stream = Dial();
  stream->Send({MakeRecord(1)});
  ASSERT_TRUE(near_->AwaitRecords(1));
  stream->Close(absl::AbortedError("enough"));
  EXPECT_EQ(far_->AwaitClosed(), absl::AbortedError("enough"));
}

TEST_P(TransportTest, AnAbortedStreamIsLostForTheOtherSideAndReleasesItsPayloads) {
  std::vector<float> values(250'000);
  absl::Notification released;
  std::shared_ptr<void> owner(nullptr, [&](void*) { released.Notify(); });
  const std::shared_ptr<Stream> stream = Dial();
  stream->Send({MakeRecord(0)});
  ASSERT_TRUE(near_->AwaitRecords(1));
  for (int i = 0; i < 32; ++i) stream->Send({MakeRecord(1, Payload(std::as_bytes(std::span(values)), owner))});
  owner.reset();
  stream->Abort();
  (void)near_->AwaitClosed();
  EXPECT_EQ(far_->AwaitClosed().code(), absl::StatusCode::kUnavailable);
  near_->Forget();
  far_->Forget();
  EXPECT_TRUE(released.WaitForNotificationWithTimeout(kSoon));
}

TEST_P(TransportTest, AnAddressWhereNobodyListensIsUnavailable) {
  const std::string address = listener_->address();
  listener_.reset();
  const std::shared_ptr<Stream> stream = transport_->Dial(address, near_, absl::Seconds(5));
  stream->Send({MakeRecord(1)});
  EXPECT_EQ(near_->AwaitClosed().code(), absl::StatusCode::kUnavailable);
}

TEST_P(TransportTest, AnAddressInUseIsRefusedByName) {
  const absl::StatusOr<std::unique_ptr<Listener>> second = transport_->Listen(listener_->address(), far_);
  ASSERT_EQ(second.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(second.status().message()), HasSubstr(listener_->address()));
  EXPECT_THAT(std::string(second.status().message()), ::testing::ContainsRegex("[Aa]ddress.*in use"));
}

TEST_P(TransportTest, DestroyingTheListenerEndsItsStreams) {
  const std::shared_ptr<Stream> stream = Dial();
  stream->Send({MakeRecord(1)});
  ASSERT_TRUE(near_->AwaitRecords(1));
  listener_.reset();
  EXPECT_EQ(near_->AwaitClosed().code(), absl::StatusCode::kUnavailable);
  (void)far_->AwaitClosed();
}

TEST_P(TransportTest, DestroyingTheTransportEndsItsStreams) {
  const std::shared_ptr<Stream> stream = Dial();
  stream->Send({MakeRecord(1)});
  ASSERT_TRUE(near_->AwaitRecords(1));
  listener_.reset();
  transport_.reset();
  (void)near_->AwaitClosed();
  stream->Send({MakeRecord(2)});  // dropped
}

// Counts what arrives and lets it go; sends as much as told when the first record comes.
class Swapper final : public StreamHandler {
 public:
  Swapper(Payload part, int parts) : part_(std::move(part)), parts_(parts) {}

  void OnMessage(const std::shared_ptr<Stream>& stream, std::span<Record> records) override {
    bool first = false;
    {
      absl::MutexLock lock(&mutex_);
      first = bytes_ == 0;
      for (const Record& record : records) bytes_ += static_cast<int64_t>(record.payload.size());
    }
    if (first) SendAll(*stream);
  }
  void OnClosed(const std::shared_ptr<Stream>& /*stream*/, const absl::Status& /*status*/) override {}
  void SendAll(Stream& stream) const {
    for (int i = 0; i < parts_; ++i) stream.Send({MakeRecord(static_cast<uint64_t>(i), part_)});
  }
  bool AwaitBytes(int64_t bytes) {
    const auto enough = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return bytes_ >= bytes; };
    absl::MutexLock lock(&mutex_);
    return mutex_.AwaitWithTimeout(absl::Condition(&enough), 3 * kSoon);
  }

 private:
  const Payload part_;
  const int parts_;
  absl::Mutex mutex_;
  int64_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;
};

TEST_P(TransportTest, BothSidesSend200MegabytesAtOnceAndBothArrive) {
  const auto memory = std::make_shared<std::vector<std::byte>>(1'000'000);
  const Payload part(*memory, memory);
  const auto near = std::make_shared<Swapper>(part, 0);
  const auto far = std::make_shared<Swapper>(part, 200);
  const absl::StatusOr<std::unique_ptr<Listener>> listener =
      transport_->Listen(GetParam().address == "ps-0" ? "ps-1" : GetParam().address, far);
  ASSERT_TRUE(listener.ok()) << listener.status();
  const std::shared_ptr<Stream> stream = transport_->Dial((*listener)->address(), near, absl::Seconds(5));
  stream->Send({ControlRecord(0)});  // the first message of an accepted stream is short
  for (int i = 0; i < 200; ++i) stream->Send({MakeRecord(0, part)});
  EXPECT_TRUE(far->AwaitBytes(200'000'000));
  EXPECT_TRUE(near->AwaitBytes(200'000'000));
}

TEST_P(TransportTest, ManyEmptyAndTinyRecordsArrive) {
  const std::shared_ptr<Stream> stream = Dial();
  static constexpr std::byte one{7};
  for (uint64_t i = 0; i < 20'000; ++i) stream->Send({MakeRecord(i, i % 2 == 0 ? Payload() : Payload({&one, 1}, nullptr))});
  ASSERT_TRUE(near_->AwaitRecords(20'000));
  const std::vector<Record> records = near_->received();
  for (uint64_t i = 0; i < 20'000; ++i) ASSERT_EQ(records[i].header.step, i);
}

TEST_P(TransportTest, AReaderThatKeepsWhatItGetsIsSentAWindowAndTheRestWhenItLetsGo) {
  Restart({.window_bytes = 4 << 20, .first_message_bytes = 8 << 20});
  const auto memory = std::make_shared<std::vector<std::byte>>(1 << 20);
  near_ = std::make_shared<Recorder>();
  const std::shared_ptr<Stream> stream = Dial();
  stream->Send({ControlRecord(0)});
  ASSERT_TRUE(near_->AwaitRecords(1));
  const std::shared_ptr<Stream> far = far_->stream();
  std::atomic<int> made = 0;
  for (uint64_t i = 0; i < 32; ++i) {
    Record record;
    record.header.op = WireOp::kValues;
    record.header.step = i;
    record.header.length = 1 << 20;
    record.late = [&](WireHeader&) {
      ++made;
      return Payload(*memory, memory);
    };
    far->Send({std::move(record)});
  }
  Record last;
  last.header.op = WireOp::kHeartbeat;  // overtakes what has no credit
  ASSERT_TRUE(near_->AwaitRecords(1 + 4));
  far->Send({last});
  ASSERT_TRUE(near_->AwaitOp(WireOp::kHeartbeat));
  EXPECT_LE(made, 1 + 4);  // a window and one record more; the others are not even made yet
  uint64_t next = 0;
  while (next < 32) {
    ASSERT_TRUE(near_->AwaitOp(WireOp::kValues));
    for (const Record& record : near_->Take()) {
      if (record.header.op == WireOp::kValues) {
        ASSERT_EQ(record.header.step, next++);
      }
    }
  }
}

TEST_P(TransportTest, AStarvedSenderIsLentAsMuchAsIsHeld) {
  far_ = std::make_shared<Recorder>();  // keeps everything
  Restart({.window_bytes = 2 << 20, .first_message_bytes = 8 << 20});
  const auto memory = std::make_shared<std::vector<std::byte>>(1 << 20);
  const std::shared_ptr<Stream> stream = Dial();
  stream->Send({ControlRecord(0)});
  for (uint64_t i = 0; i < 8; ++i) stream->Send({MakeRecord(i, Payload(*memory, memory))});
  for (size_t held = 1; held < 9; ++held) {
    ASSERT_TRUE(far_->AwaitRecords(held + 1 < 9 ? held + 1 : 9));
    far_->stream()->LendIfStarved();
  }
}

TEST_P(TransportTest, AFirstMessageThatIsTooLongEndsTheStream) {
  Restart({.first_message_bytes = 1000});
  const auto memory = std::make_shared<std::vector<std::byte>>(2000);
  const std::shared_ptr<Stream> stream = Dial();
  stream->Send({MakeRecord(0, Payload(*memory, memory))});
  const absl::Status status = near_->AwaitClosed();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("2064 bytes, expected at most 1000"));
  EXPECT_TRUE(far_->received().empty());
}

TEST_P(TransportTest, DestroyingTheTransportWithUnsentPayloadsReleasesThem) {
  far_ = std::make_shared<Recorder>();  // keeps everything, so that nearly all stays unsent
  Restart({.window_bytes = 1 << 20, .first_message_bytes = 8 << 20});
  std::vector<std::byte> memory(1 << 20);
  absl::Notification released;
  std::shared_ptr<void> owner(nullptr, [&](void*) { released.Notify(); });
  const std::shared_ptr<Stream> stream = Dial();
  stream->Send({ControlRecord(0)});
  for (int i = 0; i < 100; ++i) stream->Send({MakeRecord(1, Payload(memory, owner))});
  owner.reset();
  ASSERT_TRUE(far_->AwaitRecords(2));
  far_->Forget();
  listener_.reset();
  transport_.reset();
  (void)near_->AwaitClosed();
  EXPECT_TRUE(released.WaitForNotificationWithTimeout(kSoon));
}

// Returns from nothing until it is told to.
class StuckHandler final : public StreamHandler {
 public:
  void OnMessage(const std::shared_ptr<Stream>& /*stream*/, std::span<Record> /*records*/) override {
    entered_.Notify();
    leave_.WaitForNotification();
  }
  void OnClosed(const std::shared_ptr<Stream>& /*stream*/, const absl::Status& /*status*/) override { closed_.Notify(); }
  bool AwaitEntered() { return entered_.WaitForNotificationWithTimeout(kSoon); }
  void Leave() { leave_.Notify(); }
  bool AwaitClosed() { return closed_.WaitForNotificationWithTimeout(kSoon); }

 private:
  absl::Notification entered_;
  absl::Notification leave_;
  absl::Notification closed_;
};

TEST(InprocTransportTest, ADestructorGivesUpAHandlerThatDoesNotReturn) {
  const auto stuck = std::make_shared<StuckHandler>();
  std::unique_ptr<Transport> transport = MakeInprocTransport({}, absl::Milliseconds(50));
  std::unique_ptr<Listener> listener = transport->Listen("ps-0", stuck).value();
  const std::shared_ptr<Stream> stream = transport->Dial("ps-0", std::make_shared<Recorder>(), kSoon);
  stream->Send({MakeRecord(1, {})});
  ASSERT_TRUE(stuck->AwaitEntered());
  listener.reset();
  transport.reset();
  stuck->Leave();
  EXPECT_TRUE(stuck->AwaitClosed()) << "the streams end when the handler returns";
}

INSTANTIATE_TEST_SUITE_P(
    All, TransportTest,
    ::testing::Values(
        Kind{"Inproc", +[](const FlowOptions& flow) { return MakeInprocTransport(flow); }, "ps-0"},
        Kind{"Grpc", +[](const FlowOptions& flow) { return MakeGrpcTransport({.flow = flow}); }, "127.0.0.1:0"},
        Kind{"Shared", +[](const FlowOptions& flow) { return MakeSharedMemoryTransport(MakeInprocTransport(flow), {.flow = flow}); },
             "ps-0"},
        Kind{"SharedOverGrpc",
             +[](const FlowOptions& flow) { return MakeSharedMemoryTransport(MakeGrpcTransport({.flow = flow}), {.flow = flow}); },
             "127.0.0.1:0"}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace trainyard::engine
