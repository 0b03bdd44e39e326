#include "trainer/data/prefetcher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <vector>

#include "absl/synchronization/notification.h"
#include "trainer/data/synthetic.h"

namespace trainyard::engine {
namespace {

using ::testing::HasSubstr;

absl::Time Soon() { return absl::Now() + absl::Seconds(60); }

// Time that stands still unless Read moves it.
class FakeClock : public Clock {
 public:
  absl::Time Now() override { return absl::FromUnixMillis(millis_.load()); }
  void SleepFor(absl::Duration duration) override { millis_ += absl::ToInt64Milliseconds(duration); }

 private:
  std::atomic<int64_t> millis_{0};
};

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
    if (clock != nullptr) clock->SleepFor(absl::Seconds(1));
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
    auto batch = prefetcher.Next(Soon());
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
  const Batch* last_of_first_epoch = *prefetcher.Next(Soon());
  EXPECT_EQ(last_of_first_epoch->step, 7);
  EXPECT_EQ(last_of_first_epoch->epoch, 0);
  EXPECT_EQ(last_of_first_epoch->rows, 1);
  EXPECT_TRUE(last_of_first_epoch->last_in_epoch);
  const Batch* first_of_second = *prefetcher.Next(Soon());
  EXPECT_EQ(first_of_second->epoch, 1);
  EXPECT_EQ(first_of_second->step_in_epoch, 0);
  EXPECT_EQ(first_of_second->rows, 7);
  EXPECT_EQ(*prefetcher.Next(Soon()), nullptr);
  EXPECT_EQ(*prefetcher.Next(Soon()), nullptr);
}

TEST(Prefetcher, AnErrorArrivesAtItsStepAndStays) {
  for (int depth : {0, 3}) {
    TroubledDataset dataset(Examples(50));
    dataset.fail_at = 2;
    Prefetcher prefetcher(dataset, Order(50, 7), {.depth = depth, .first_step = 0, .end_step = 9}, RealClock());
    EXPECT_TRUE(prefetcher.Next(Soon()).ok());
    EXPECT_TRUE(prefetcher.Next(Soon()).ok());
    for (int i = 0; i < 2; ++i) EXPECT_THAT(std::string(prefetcher.Next(Soon()).status().message()), HasSubstr("record 17 is gone"));
    EXPECT_EQ(dataset.calls(), 3);
  }
}

TEST(Prefetcher, ABatchThatDoesNotComeIsADeadlineErrorAndMayStillCome) {
  TroubledDataset dataset(Examples(50));
  absl::Notification gate;
  dataset.gate = &gate;
  Prefetcher prefetcher(dataset, Order(50, 7), {.depth = 2, .first_step = 4, .end_step = 9}, RealClock());
  auto batch = prefetcher.Next(absl::InfinitePast());
  EXPECT_EQ(batch.status().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(std::string(batch.status().message()), HasSubstr("no batch for step 4 came from synthetic data"));
  gate.Notify();
  batch = prefetcher.Next(Soon());
  ASSERT_TRUE(batch.ok()) << batch.status();
  EXPECT_EQ((*batch)->step, 4);
}

TEST(Prefetcher, StoppingInTheMiddleJoinsTheReader) {
  TroubledDataset dataset(Examples(50));
  {
    Prefetcher prefetcher(dataset, Order(50, 7), {.depth = 2, .first_step = 0, .end_step = 1000000}, RealClock());
    EXPECT_TRUE(prefetcher.Next(Soon()).ok());
  }
  EXPECT_LE(dataset.calls(), 4);
}

TEST(Prefetcher, ReadsNoFurtherAheadThanItsDepth) {
  TroubledDataset dataset(Examples(50));
  {
    Prefetcher prefetcher(dataset, Order(50, 7), {.depth = 3, .first_step = 0, .end_step = 1000000}, RealClock());
    for (int i = 0; i < 10; ++i) EXPECT_TRUE(prefetcher.Next(Soon()).ok());
  }
  EXPECT_LE(dataset.calls(), 10 + 4);
}

TEST(Prefetcher, TimeSpentWaitingIsMeasured) {
  TroubledDataset dataset(Examples(50));
  FakeClock clock;
  dataset.clock = &clock;
  Prefetcher prefetcher(dataset, Order(50, 7), {.depth = 0, .first_step = 0, .end_step = 3}, clock);
  while (*prefetcher.Next(Soon()) != nullptr) {
  }
  EXPECT_EQ(prefetcher.input_wait(), absl::Seconds(3));
}

TEST(Prefetcher, SteadyBatchesReuseTheirMemory) {
  auto dataset = Examples(49);
  Prefetcher prefetcher(*dataset, Order(49, 7), {.depth = 1, .first_step = 0, .end_step = 20}, RealClock());
  std::vector<const void*> seen;
  while (true) {
    const Batch* batch = *prefetcher.Next(Soon());
    if (batch == nullptr) break;
    if (std::find(seen.begin(), seen.end(), batch->x.data) == seen.end()) seen.push_back(batch->x.data);
  }
  EXPECT_LE(seen.size(), 2);
}

}  // namespace
}  // namespace trainyard::engine
