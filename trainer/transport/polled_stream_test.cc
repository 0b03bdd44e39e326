// Streams through shared memory whose user looks for messages itself.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "trainer/base/clock.h"
#include "trainer/transport/inproc_transport.h"
#include "trainer/transport/shared_memory_transport.h"
#include "trainer/transport/test_deadline.h"
#include "trainer/transport/test_inbox.h"

namespace trainyard::engine {
namespace {

// Keeps the stream too, and how much came in the thread that made the inbox, which polls.
class PolledInbox final : public Inbox {
 public:
  void OnMessage(const std::shared_ptr<Stream>& stream, std::span<Record> records) override {
    {
      absl::MutexLock lock(&mutex_);
      stream_ = stream;
      if (std::this_thread::get_id() == poller_) polled_ += records.size();
    }
    Inbox::OnMessage(stream, records);
  }
  std::shared_ptr<Stream> stream() {
    absl::MutexLock lock(&mutex_);
    return stream_;
  }
  size_t polled() {
    absl::MutexLock lock(&mutex_);
    return polled_;
  }

 private:
  const std::thread::id poller_ = std::this_thread::get_id();
  absl::Mutex mutex_;
  std::shared_ptr<Stream> stream_ ABSL_GUARDED_BY(mutex_);
  size_t polled_ ABSL_GUARDED_BY(mutex_) = 0;
};

class PolledStreamTest : public ::testing::Test {
 protected:
  PolledStreamTest() {
    Send(0);
    EXPECT_THAT(inbox_->AwaitSteps(1), ::testing::ElementsAre(0));
    received_ = inbox_->stream();
  }
  ~PolledStreamTest() override {
    received_ = nullptr;
    sender_ = nullptr;
    listener_ = nullptr;
  }
  void Send(uint64_t step) {
    Record record;
    record.header.op = WireOp::kPull;
    record.header.step = step;
    sender_->Send({std::move(record)});
  }

  const std::shared_ptr<PolledInbox> inbox_ = std::make_shared<PolledInbox>();
  const std::shared_ptr<Inbox> other_ = std::make_shared<Inbox>();
  std::unique_ptr<Transport> transport_ = MakeSharedMemoryTransport(MakeInprocTransport());
  std::unique_ptr<Listener> listener_ = transport_->Listen("here", inbox_).value();
  std::shared_ptr<Stream> sender_ = transport_->Dial("here", other_, kSoon);
  std::shared_ptr<Stream> received_;
};

TEST_F(PolledStreamTest, WhatHasComeIsHandledInTheThreadThatPolls) {
  const absl::Time deadline = RealClock().Now() + kSoon;
  // The stream's thread may be faster until it rests.
  for (uint64_t step = 1; inbox_->polled() == 0 && RealClock().Now() < deadline; ++step) {
    ASSERT_TRUE(received_->Poll());
    Send(step);
    while (inbox_->count() <= step && RealClock().Now() < deadline) received_->Poll();
    ASSERT_EQ(inbox_->count(), step + 1);
  }
  EXPECT_GT(inbox_->polled(), 0U);
}

TEST_F(PolledStreamTest, AMessageAfterTheLastPollIsHeard) {
  for (uint64_t step = 1; step <= 50; ++step) {
    received_->Poll();
    Send(step);
    ASSERT_EQ(inbox_->AwaitSteps(step + 1).size(), step + 1);
  }
}

TEST_F(PolledStreamTest, AMessageAfterTheEndOfPollingIsHeard) {
  for (uint64_t step = 1; step <= 500; ++step) {
    received_->Poll();
    received_->EndPolling();
    Send(step);
    ASSERT_EQ(inbox_->AwaitSteps(step + 1).size(), step + 1);
  }
}

TEST_F(PolledStreamTest, MessagesKeepTheirOrderHoweverManyThreadsPoll) {
  constexpr uint64_t kCount = 20'000;
  std::atomic<bool> over = false;
  std::vector<std::thread> pollers;
  for (int i = 0; i < 2; ++i) {
    pollers.emplace_back([&, i] {
      while (!over) {
        received_->Poll();
        if (i == 0) received_->EndPolling();
      }
    });
  }
  for (uint64_t step = 1; step <= kCount; ++step) {
    // The queue of control records is bounded.
    while (step > inbox_->count() + 100) std::this_thread::yield();
    Send(step);
  }
  const std::vector<uint64_t> steps = inbox_->AwaitSteps(kCount + 1);
  over = true;
  for (std::thread& poller : pollers) poller.join();
  ASSERT_EQ(steps.size(), kCount + 1);
  for (uint64_t step = 0; step <= kCount; ++step) ASSERT_EQ(steps[step], step);
}

TEST_F(PolledStreamTest, TheEndOfAPolledStreamIsHeard) {
  received_->Poll();
  sender_->Abort();
  EXPECT_TRUE(inbox_->AwaitGone(1));
  received_->Poll();
}

TEST(PolledNetworkTest, AStreamWithoutSharedMemoryCannotBePolled) {
  const auto inbox = std::make_shared<Inbox>();
  const std::unique_ptr<Transport> transport = MakeInprocTransport();
  const std::unique_ptr<Listener> listener = transport->Listen("here", inbox).value();
  EXPECT_FALSE(transport->Dial("here", inbox, kSoon)->Poll());
}

}  // namespace
}  // namespace trainyard::engine
