#include "trainer/data/prefetcher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "trainer/base/fake_clock.h"
#include "trainer/data/formats/synthetic.h"

namespace trainyard::engine {
namespace {

using ::testing::HasSubstr;

constexpr absl::Duration kSoon = absl::Seconds(60);

std::unique_ptr<Dataset> Examples(int64_t count) {
  return *MakeSyntheticDataset({.examples = count, .expected = {.example_shape = {2}, .classes = 3}});
}

Sampler Order(int64_t examples, int64_t batch_size) { return *Sampler::Create({.examples = examples, .batch_size = batch_size}); }

// Fails at one call, may wait before another, and tells a clock how long each takes.
class TroubledDataset : public Dataset {
 public:
  explicit TroubledDataset(std::unique_ptr<Dataset> dataset) : dataset_(std::move(dataset)) {}
  const DatasetInfo& info() const override { return dataset_->info(); }
  absl::Status Read(std::span<const int64_t> indices, Batch& batch) const override {
    const int call = calls_++;
    if (gate != nullptr) gate->WaitForNotification();
    if (clock != nullptr) clock->Advance(absl::Seconds(1));
    if (call == fail_at) return absl::DataLossError("record 17 is gone");
    return dataset_->Read(indices, batch);
  }
  int calls() const { return calls_; }

  int fail_at = -1;
  absl::Notification* gate = nullptr;
  FakeClock* clock = nullptr;

 private:
  std::unique_ptr<Dataset> dataset_;
  mutable std::atomic<int> calls_{0};
};

std::vector<int32_t> LabelsOf(const Batch& batch) {
  auto labels = batch.y.values<const int32_t>();
  return {labels.begin(), labels.end()};
}

// The labels of all batches, one vector each.
std::vector<std::vector<int32_t>> RunAll(const Dataset& dataset, const PrefetcherOptions& options) {
  Prefetcher prefetcher(dataset, Order(dataset.info().examples, 7), options, RealClock());
  std::vector<std::vector<int32_t>> all;
  while (true) {
    auto batch = prefetcher.Next(kSoon);
    EXPECT_TRUE(batch.ok()) << batch.status();
    if (!batch.ok() || *batch == nullptr) return all;
    all.push_back(LabelsOf(**batch));
  }
}

TEST(Prefetcher, BatchesAreTheSameWhateverTheDepth) {
  auto dataset = Examples(50);
  const auto expected = RunAll(*dataset, {.depth = 0, .first_step = 0, .end_step = 20});
  EXPECT_EQ(expected.size(), 20);
  EXPECT_EQ(RunAll(*dataset, {.depth = 1, .first_step = 0, .end_step = 20}), expected);
  EXPECT_EQ(RunAll(*dataset, {.depth = 5, .first_step = 0, .end_step = 20}), expected);
}

TEST(Prefetcher, MayStartAtAnyStep) {
  auto dataset = Examples(50);
  const auto whole = RunAll(*dataset, {.depth = 2, .first_step = 0, .end_step = 20});
  const auto tail = RunAll(*dataset, {.depth = 2, .first_step = 13, .end_step = 20});
  EXPECT_EQ(tail, std::vector(whole.begin() + 13, whole.end()));
}

TEST(Prefetcher, BatchesKnowTheirPlace) {
  auto dataset = Examples(50);
  Prefetcher prefetcher(*dataset, Order(50, 7), {.depth = 2, .first_step = 7, .end_step = 9}, RealClock());
  const Batch* last_of_first_epoch = *prefetcher.Next(kSoon);
  EXPECT_EQ(last_of_first_epoch->step, 7);
  EXPECT_EQ(last_of_first_epoch->epoch, 0);
  EXPECT_EQ(last_of_first_epoch->examples, 1);
  EXPECT_TRUE(last_of_first_epoch->last_in_epoch);
  const Batch* first_of_second = *prefetcher.Next(kSoon);
  EXPECT_EQ(first_of_second->epoch, 1);
  EXPECT_EQ(first_of_second->step_in_epoch, 0);
  EXPECT_EQ(first_of_second->examples, 7);
  EXPECT_EQ(*prefetcher.Next(kSoon), nullptr);
  EXPECT_EQ(*prefetcher.Next(kSoon), nullptr);
}

TEST(Prefetcher, AnErrorArrivesAtItsStepAndStays) {
  for (int depth : {0, 3}) {
    TroubledDataset dataset(Examples(50));
    dataset.fail_at = 2;
    Prefetcher prefetcher(dataset, Order(50, 7), {.depth = depth, .first_step = 0, .end_step = 9}, RealClock());
    EXPECT_TRUE(prefetcher.Next(kSoon).ok());
    EXPECT_TRUE(prefetcher.Next(kSoon).ok());
    for (int i = 0; i < 2; ++i) EXPECT_THAT(std::string(prefetcher.Next(kSoon).status().message()), HasSubstr("record 17 is gone"));
    EXPECT_EQ(dataset.calls(), 3);
  }
}

TEST(Prefetcher, ABatchThatDoesNotComeIsADeadlineErrorAndMayStillCome) {
  TroubledDataset dataset(Examples(50));
  absl::Notification gate;
  dataset.gate = &gate;
  Prefetcher prefetcher(dataset, Order(50, 7), {.depth = 2, .first_step = 4, .end_step = 9}, RealClock());
  auto batch = prefetcher.Next(absl::ZeroDuration());
  EXPECT_EQ(batch.status().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(std::string(batch.status().message()), HasSubstr("no batch for step 4 came from synthetic data"));
  gate.Notify();
  batch = prefetcher.Next(kSoon);
  ASSERT_TRUE(batch.ok()) << batch.status();
  EXPECT_EQ((*batch)->step, 4);
}

TEST(Prefetcher, StoppingInTheMiddleJoinsTheReader) {
  TroubledDataset dataset(Examples(50));
  {
    Prefetcher prefetcher(dataset, Order(50, 7), {.depth = 2, .first_step = 0, .end_step = 1000000}, RealClock());
    EXPECT_TRUE(prefetcher.Next(kSoon).ok());
  }
  EXPECT_LE(dataset.calls(), 4);
}

TEST(Prefetcher, ReadsNoFurtherAheadThanItsDepth) {
  TroubledDataset dataset(Examples(50));
  {
    Prefetcher prefetcher(dataset, Order(50, 7), {.depth = 3, .first_step = 0, .end_step = 1000000}, RealClock());
    for (int i = 0; i < 10; ++i) EXPECT_TRUE(prefetcher.Next(kSoon).ok());
  }
  EXPECT_LE(dataset.calls(), 10 + 4);
}

TEST(Prefetcher, TimeSpentWaitingIsMeasured) {
  TroubledDataset dataset(Examples(50));
  FakeClock clock;
  dataset.clock = &clock;
  Prefetcher prefetcher(dataset, Order(50, 7), {.depth = 0, .first_step = 0, .end_step = 3}, clock);
  while (*prefetcher.Next(kSoon) != nullptr) {
  }
  EXPECT_EQ(prefetcher.input_wait(), absl::Seconds(3));
}

TEST(Prefetcher, SteadyBatchesReuseTheirMemory) {
  auto dataset = Examples(49);
  Prefetcher prefetcher(*dataset, Order(49, 7), {.depth = 1, .first_step = 0, .end_step = 20}, RealClock());
  std::vector<const void*> seen;
  while (true) {
    const Batch* batch = *prefetcher.Next(kSoon);
    if (batch == nullptr) break;
    if (std::find(seen.begin(), seen.end(), batch->x.data) == seen.end()) seen.push_back(batch->x.data);
  }
  EXPECT_LE(seen.size(), 2);
}

TEST(Prefetcher, AnAutomaticDepthGrowsOnlyForAReaderThatWasAhead) {
  TroubledDataset dataset(Examples(50));
  absl::Notification gate;
  dataset.gate = &gate;
  Prefetcher prefetcher(dataset, Order(50, 7), {.depth = 2, .max_depth = 5, .first_step = 0, .end_step = 100000}, RealClock());
  EXPECT_FALSE(prefetcher.Next(absl::ZeroDuration()).ok());
  EXPECT_FALSE(prefetcher.Next(absl::ZeroDuration()).ok());
  EXPECT_EQ(prefetcher.depth(), 2) << "the reader was never ahead";
  gate.Notify();
  // A run of batches taken as fast as they come neither passes the bound nor changes them, under
  // every order of the threads.
  const auto all = RunAll(*Examples(50), {.depth = 2, .max_depth = 5, .first_step = 0, .end_step = 200});
  EXPECT_EQ(all, RunAll(*Examples(50), {.depth = 0, .first_step = 0, .end_step = 200}));
}

// Lets through as many reads as it was told.
class MeteredDataset : public Dataset {
 public:
  explicit MeteredDataset(std::unique_ptr<Dataset> dataset) : dataset_(std::move(dataset)) {}
  const DatasetInfo& info() const override { return dataset_->info(); }
  absl::Status Read(std::span<const int64_t> indices, Batch& batch) const override {
    const absl::MutexLock lock(&mutex_);
    ++waiting_;
    mutex_.Await(absl::Condition(this, &MeteredDataset::MayRead));
    --waiting_;
    ++done_;
    return dataset_->Read(indices, batch);
  }
  void Allow(int reads) {
    const absl::MutexLock lock(&mutex_);
    allowed_ += reads;
  }
  // Until all allowed reads are done and the reader waits with nothing to put a batch into, or for
  // the next read to be allowed.
  bool AwaitDone(int reads) const {
    const absl::MutexLock lock(&mutex_);
    wanted_ = reads;
    return mutex_.AwaitWithTimeout(absl::Condition(this, &MeteredDataset::Done), absl::Seconds(60));
  }

 private:
  bool MayRead() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return done_ < allowed_; }
  bool Done() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return done_ >= wanted_ && waiting_ == 1; }

  std::unique_ptr<Dataset> dataset_;
  mutable absl::Mutex mutex_;
  int allowed_ ABSL_GUARDED_BY(mutex_) = 0;
  mutable int wanted_ ABSL_GUARDED_BY(mutex_) = 0;
  mutable int done_ ABSL_GUARDED_BY(mutex_) = 0;
  mutable int waiting_ ABSL_GUARDED_BY(mutex_) = 0;
};

TEST(Prefetcher, AnAutomaticDepthDoublesWhenAReaderThatWasAheadFallsBehind) {
  MeteredDataset dataset(Examples(50));
  Prefetcher prefetcher(dataset, Order(50, 7), {.depth = 2, .max_depth = 5, .first_step = 0, .end_step = 1000}, RealClock());
  dataset.Allow(2);
  ASSERT_TRUE(dataset.AwaitDone(2));  // two batches are ready: all of the depth; the third read waits
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(prefetcher.Next(kSoon).ok());
  EXPECT_FALSE(prefetcher.Next(absl::ZeroDuration()).ok());
  EXPECT_EQ(prefetcher.depth(), 4);
  EXPECT_FALSE(prefetcher.Next(absl::ZeroDuration()).ok());
  EXPECT_EQ(prefetcher.depth(), 4) << "it was not ahead again";
  dataset.Allow(4);
  ASSERT_TRUE(dataset.AwaitDone(6));
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(prefetcher.Next(kSoon).ok());
  EXPECT_FALSE(prefetcher.Next(absl::ZeroDuration()).ok());
  EXPECT_EQ(prefetcher.depth(), 5) << "the bound";
  dataset.Allow(1000);
}

TEST(Prefetcher, BatchesSayWhatTheirMakingTook) {
  TroubledDataset dataset(Examples(50));
  FakeClock clock;
  Prefetcher prefetcher(dataset, Order(50, 7), {.depth = 0, .first_step = 0, .end_step = 3}, clock);
  for (int step = 0; step < 3; ++step) {
    const Batch* batch = *prefetcher.Next(kSoon);
    ASSERT_EQ(batch->stages.spans().size(), 1U) << "spans of batches before";
    EXPECT_EQ(batch->stages.spans()[0].stage, "order");
  }
}

}  // namespace
}  // namespace trainyard::engine
