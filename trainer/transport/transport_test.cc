// One suite for every transport: what a lane promises.
#include "trainer/transport/transport.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "trainer/transport/grpc_transport.h"
#include "trainer/transport/inproc_transport.h"

namespace trainyard::engine {
namespace {

using ::testing::HasSubstr;

constexpr absl::Duration kSoon = absl::Seconds(20);

// Keeps what arrives; answers nothing unless told to echo.
class Recorder final : public LaneHandler {
 public:
  explicit Recorder(bool echo = false) : echo_(echo) {}

  void OnMessage(const std::shared_ptr<Lane>& lane, std::span<Record> records) override {
    std::vector<Record> answers;
    {
      absl::MutexLock lock(&mutex_);
      lane_ = lane;
      ++messages_;
      for (Record& record : records) received_.push_back(record);
    }
    if (echo_) lane->Send({records.begin(), records.end()});
  }
  void OnClosed(const std::shared_ptr<Lane>& /*lane*/, const absl::Status& status) override {
    absl::MutexLock lock(&mutex_);
    lane_ = nullptr;
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
  void Forget() {
    absl::MutexLock lock(&mutex_);
    received_.clear();
  }
  int messages() {
    absl::MutexLock lock(&mutex_);
    return messages_;
  }
  std::shared_ptr<Lane> lane() {
    absl::MutexLock lock(&mutex_);
    return lane_;
  }

 private:
  const bool echo_;
  absl::Mutex mutex_;
  std::vector<Record> received_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<Lane> lane_ ABSL_GUARDED_BY(mutex_);
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

struct Kind {
  std::string name;
  std::unique_ptr<Transport> (*make)();
  std::string address;
};

class TransportTest : public ::testing::TestWithParam<Kind> {
 protected:
  void SetUp() override {
    transport_ = GetParam().make();
    absl::StatusOr<std::unique_ptr<Listener>> listener = transport_->Listen(GetParam().address, far_);
    ASSERT_TRUE(listener.ok()) << listener.status();
    listener_ = *std::move(listener);
  }
  std::shared_ptr<Lane> Dial() { return transport_->Dial(listener_->address(), near_, absl::Seconds(5)); }

  std::shared_ptr<Recorder> far_ = std::make_shared<Recorder>(/*echo=*/true);
  std::shared_ptr<Recorder> near_ = std::make_shared<Recorder>();
  std::unique_ptr<Transport> transport_;
  std::unique_ptr<Listener> listener_;
};

TEST_P(TransportTest, RecordsArriveInOrderWithTheirBytes) {
  std::vector<float> values(300'000);
  std::iota(values.begin(), values.end(), 0.0F);
  const std::shared_ptr<Lane> lane = Dial();
  for (uint64_t step = 0; step < 20; ++step)
    lane->Send({MakeRecord(step, Payload(std::as_bytes(std::span(values)).first(4 * (step * 15'000 + 1)), nullptr))});
  ASSERT_TRUE(near_->AwaitRecords(20));
  const std::vector<Record> records = near_->received();
  for (uint64_t step = 0; step < 20; ++step) {
    ASSERT_EQ(records[step].header.step, step);
    std::vector<float> copy(step * 15'000 + 1);
    ASSERT_EQ(records[step].payload.size(), copy.size() * 4);
    PayloadReader(records[step].payload).Read(std::as_writable_bytes(std::span(copy)));
    ASSERT_TRUE(std::equal(copy.begin(), copy.end(), values.begin()));
  }
}

TEST_P(TransportTest, RecordsSentWithMoreShareAMessage) {
  const std::shared_ptr<Lane> lane = Dial();
  lane->Send({MakeRecord(0)});
  ASSERT_TRUE(near_->AwaitRecords(1));
  lane->Send({MakeRecord(1)}, /*more=*/true);
  lane->Send({MakeRecord(2), MakeRecord(3)}, /*more=*/true);
  lane->Send({MakeRecord(4)});
  ASSERT_TRUE(near_->AwaitRecords(5));
  EXPECT_EQ(far_->messages(), 2);
  EXPECT_EQ(lane->traffic().messages_sent, 2);
  EXPECT_EQ(lane->traffic().bytes_sent, 5 * 64);
}

TEST_P(TransportTest, ClosingSendsWhatIsQueuedFirst) {
  const std::shared_ptr<Lane> lane = Dial();
  lane->Send({MakeRecord(1)}, /*more=*/true);
  lane->Close(absl::OkStatus());
  EXPECT_TRUE(near_->AwaitClosed().ok());
  EXPECT_TRUE(far_->AwaitClosed().ok());
  EXPECT_EQ(far_->received().size(), 1U);
  lane->Send({MakeRecord(2)});  // dropped
}

TEST_P(TransportTest, TheListeningSideTellsWhyItClosed) {
  const std::shared_ptr<Lane> lane = Dial();
  lane->Send({MakeRecord(1)});
  ASSERT_TRUE(near_->AwaitRecords(1));
  far_->lane()->Close(absl::FailedPreconditionError("another model"));
  EXPECT_EQ(near_->AwaitClosed(), absl::FailedPreconditionError("another model"));
}

TEST_P(TransportTest, TheDiallingSideTellsWhyItClosed) {
  const std::shared_ptr<Lane> lane = Dial();
  lane->Send({MakeRecord(1)});
  ASSERT_TRUE(near_->AwaitRecords(1));
  lane->Close(absl::AbortedError("enough"));
  EXPECT_EQ(far_->AwaitClosed(), absl::AbortedError("enough"));
}

TEST_P(TransportTest, AnAbortedLaneIsLostForTheOtherSideAndReleasesItsPayloads) {
  std::vector<float> values(1'000'000);
  absl::Notification released;
  std::shared_ptr<void> owner(nullptr, [&](void*) { released.Notify(); });
  const std::shared_ptr<Lane> lane = Dial();
  lane->Send({MakeRecord(0)});
  ASSERT_TRUE(near_->AwaitRecords(1));
  for (int i = 0; i < 8; ++i) lane->Send({MakeRecord(1, Payload(std::as_bytes(std::span(values)), owner))});
  owner.reset();
  lane->Abort();
  (void)near_->AwaitClosed();
  EXPECT_EQ(far_->AwaitClosed().code(), absl::StatusCode::kUnavailable);
  near_->Forget();
  far_->Forget();
  EXPECT_TRUE(released.WaitForNotificationWithTimeout(kSoon));
}

TEST_P(TransportTest, AnAddressWhereNobodyListensIsUnavailable) {
  const std::string address = listener_->address();
  listener_.reset();
  const std::shared_ptr<Lane> lane = transport_->Dial(address, near_, absl::Seconds(5));
  lane->Send({MakeRecord(1)});
  EXPECT_EQ(near_->AwaitClosed().code(), absl::StatusCode::kUnavailable);
}

TEST_P(TransportTest, AnAddressInUseIsRefusedByName) {
  const absl::StatusOr<std::unique_ptr<Listener>> second = transport_->Listen(listener_->address(), far_);
  ASSERT_EQ(second.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(second.status().message()), HasSubstr(listener_->address()));
  EXPECT_THAT(std::string(second.status().message()), ::testing::ContainsRegex("[Aa]ddress.*in use"));
}

TEST_P(TransportTest, DestroyingTheListenerEndsItsLanes) {
  const std::shared_ptr<Lane> lane = Dial();
  lane->Send({MakeRecord(1)});
  ASSERT_TRUE(near_->AwaitRecords(1));
  listener_.reset();
  EXPECT_EQ(near_->AwaitClosed().code(), absl::StatusCode::kUnavailable);
  (void)far_->AwaitClosed();
}

TEST_P(TransportTest, DestroyingTheTransportEndsItsLanes) {
  const std::shared_ptr<Lane> lane = Dial();
  lane->Send({MakeRecord(1)});
  ASSERT_TRUE(near_->AwaitRecords(1));
  listener_.reset();
  transport_.reset();
  (void)near_->AwaitClosed();
  lane->Send({MakeRecord(2)});  // dropped
}

INSTANTIATE_TEST_SUITE_P(All, TransportTest,
                         ::testing::Values(Kind{"Inproc", &MakeInprocTransport, "ps-0"},
                                           Kind{"Grpc", +[] { return MakeGrpcTransport(); }, "127.0.0.1:0"},
                                           Kind{"GrpcWithThreads", +[] { return MakeGrpcTransport({.io_threads = 3}); }, "127.0.0.1:0"}),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace trainyard::engine
