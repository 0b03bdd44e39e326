#include "trainer/serve/batcher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <optional>

#include "trainer/base/clock.h"
#include "trainer/base/notification.h"

namespace trainyard::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Values = absl::StatusOr<std::vector<float>>;

constexpr absl::Duration kDeadline = absl::Seconds(60);

ServedExamples Examples(std::vector<float> numbers) {
  ServedExamples examples{.dtype = DType::kF32, .count = static_cast<int64_t>(numbers.size()), .bytes = {}, .steps = {}};
  examples.bytes.resize(numbers.size() * sizeof(float));
  std::memcpy(examples.bytes.data(), numbers.data(), examples.bytes.size());
  return examples;
}

// One text, whose tokens are these.
ServedExamples Steps(std::vector<float> numbers) {
  ServedExamples examples = Examples(numbers);
  examples.count = 1;
  examples.steps = {static_cast<int64_t>(numbers.size())};
  return examples;
}

// Doubles each number, and adds what it said in the row before; numbers that are read are added to
// the row likewise. Waits for `go` before its first batch.
class BatcherTest : public ::testing::Test {
 protected:
  void Start(BatcherOptions options) {
    batcher_ = std::make_unique<Batcher>(
        options,
        [this](DType dtype, std::span<const std::byte> bytes, int64_t examples,
               std::span<RowState* const> states) -> absl::StatusOr<std::span<const float>> {
          EXPECT_TRUE(go_.WaitForNotificationWithTimeout(kDeadline));
          if (!error_.ok()) return error_;
          const size_t each = SizeOf(dtype);
          EXPECT_EQ(bytes.size(), static_cast<size_t>(examples) * each);
          values_.assign(static_cast<size_t>(examples), 0);
          for (size_t i = 0; i < values_.size(); ++i) {
            if (dtype == DType::kF32) {
              std::memcpy(&values_[i], &bytes[i * each], each);
            } else {
              values_[i] = static_cast<float>(bytes[i]);
            }
            values_[i] *= 2;
            if (i >= states.size()) continue;
            RowState& state = *states[i];
            state.resize(1);
            state[0] = values_[i] += state[0];
          }
          return std::span<const float>(values_);
        },
        [this](std::span<const std::byte> bytes, int64_t length, std::span<RowState* const> states) -> absl::Status {
          EXPECT_TRUE(go_.WaitForNotificationWithTimeout(kDeadline));
          if (!error_.ok()) return error_;
          EXPECT_EQ(bytes.size(), states.size() * static_cast<size_t>(length) * sizeof(float));
          for (size_t i = 0; i < states.size() * static_cast<size_t>(length); ++i) {
            float number = 0;
            std::memcpy(&number, &bytes[i * sizeof(float)], sizeof(float));
            RowState& state = *states[i / static_cast<size_t>(length)];
            state.resize(1);
            state[0] += 2 * number;
          }
          lengths_.push_back(length);
          return absl::OkStatus();
        },
        [this](const Batcher::BatchSeen& batch) {
          sizes_.push_back(batch.size);
          counts_.push_back(batch.examples);
        });
  }

  struct Answer {
    Notification came;
    std::optional<Values> values;
  };
  std::shared_ptr<Answer> Submit(ServedExamples examples, absl::Duration deadline = kDeadline,
                                 std::shared_ptr<CarriedRow> carried = nullptr) {
    auto answer = std::make_shared<Answer>();
    const absl::Status status = batcher_->Submit({.examples = std::move(examples),
                                                  .deadline = RealClock().Now() + deadline,
                                                  .carried = std::move(carried),
                                                  .done = [answer, waits = waits_](Values values) {
                                                    answer->values = std::move(values);
                                                    answer->came.Notify();
                                                    return waits;
                                                  }});
    EXPECT_TRUE(status.ok()) << status;
    return answer;
  }
  absl::Status Refusal(ServedExamples examples) {
    return batcher_->Submit({.examples = std::move(examples), .deadline = absl::InfiniteFuture(), .done = [](const Values&) {
                               ADD_FAILURE();
                               return true;
                             }});
  }
  static Values Wait(const std::shared_ptr<Answer>& answer) {
    if (!answer->came.WaitForNotificationWithTimeout(kDeadline)) return absl::DeadlineExceededError("no answer");
    return *answer->values;
  }
  // All answers are there, and no batch runs.
  void End() {
    go_.Notify();
    batcher_ = nullptr;
  }

  Notification go_;
  bool waits_ = true;  // for answers
  absl::Status error_;
  std::vector<float> values_;
  std::vector<int64_t> sizes_;
  std::vector<int64_t> counts_;
  std::vector<int64_t> lengths_;  // of the runs that read
  std::unique_ptr<Batcher> batcher_;
};

TEST_F(BatcherTest, EachRequestGetsItsOwnNumbers) {
  Start({});
  go_.Notify();
  EXPECT_THAT(*Wait(Submit(Examples({1, 2, 3}))), ElementsAre(2, 4, 6));
  EXPECT_THAT(*Wait(Submit(Examples({5}))), ElementsAre(10));
}

TEST_F(BatcherTest, RequestsThatCameWhileTheModelWasBusyShareABatchOfAPowerOfTwo) {
  Start({});
  const auto first = Submit(Examples({1}));
  while (batcher_->queued() > 0) std::this_thread::yield();  // the first batch has begun
  const auto second = Submit(Examples({2, 3}));
  const auto third = Submit(Examples({4}));
  End();
  EXPECT_THAT(*Wait(first), ElementsAre(2));
  EXPECT_THAT(*Wait(second), ElementsAre(4, 6));
  EXPECT_THAT(*Wait(third), ElementsAre(8));
  EXPECT_THAT(sizes_, ElementsAre(1, 4));
  EXPECT_THAT(counts_, ElementsAre(1, 3));
}

TEST_F(BatcherTest, ABatchThatIsFullDoesNotWait) {
  Start({.most_batch = 4, .most_wait = absl::Hours(1)});
  go_.Notify();
  const auto first = Submit(Examples({1, 2, 3}));
  const auto second = Submit(Examples({4}));
  EXPECT_THAT(*Wait(first), ElementsAre(2, 4, 6));
  EXPECT_THAT(*Wait(second), ElementsAre(8));
  End();
  EXPECT_THAT(sizes_, ElementsAre(4));
}

TEST_F(BatcherTest, ALongRequestIsSpreadOverBatches) {
  Start({.most_batch = 2});
  const auto all = Submit(Examples({1, 2, 3, 4, 5}));
  End();
  EXPECT_THAT(*Wait(all), ElementsAre(2, 4, 6, 8, 10));
  EXPECT_THAT(sizes_, ElementsAre(2, 2, 1));
}

TEST_F(BatcherTest, BytesAndNumbersGetBatchesOfTheirOwn) {
  Start({.most_batch = 8, .most_wait = absl::Hours(1)});
  const auto numbers = Submit(Examples({1.5}));
  const auto bytes = Submit({.dtype = DType::kU8, .count = 1, .bytes = {std::byte{7}}, .steps = {}});
  End();
  EXPECT_THAT(*Wait(numbers), ElementsAre(3));
  EXPECT_THAT(*Wait(bytes), ElementsAre(14));
}

TEST_F(BatcherTest, AFullQueueRefuses) {
  Start({.most_batch = 2, .most_queued = 3});
  const auto running = Submit(Examples({0}));
  while (batcher_->queued() > 0) std::this_thread::yield();
  const auto waiting = Submit(Examples({1, 2}));
  const absl::Status refused = Refusal(Examples({3, 4}));
  EXPECT_TRUE(absl::IsResourceExhausted(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr("2 examples wait for the model, at most 3 may"));
  const absl::Status never = Refusal(Examples({1, 2, 3, 4}));
  EXPECT_TRUE(absl::IsInvalidArgument(never)) << never;
  const auto fits = Submit(Examples({3}));
  End();
  EXPECT_THAT(*Wait(waiting), ElementsAre(2, 4));
  EXPECT_THAT(*Wait(fits), ElementsAre(6));
}

TEST_F(BatcherTest, ARequestWhoseTimeIsOverIsNotRun) {
  Start({});
  const auto running = Submit(Examples({1}));
  while (batcher_->queued() > 0) std::this_thread::yield();
  const auto late = Submit(Examples({2}), absl::ZeroDuration());
  const auto next = Submit(Examples({3}));
  End();
  EXPECT_TRUE(absl::IsDeadlineExceeded(Wait(late).status()));
  EXPECT_THAT(*Wait(next), ElementsAre(6));
  EXPECT_THAT(counts_, ElementsAre(1, 1));
}

TEST_F(BatcherTest, AnErrorOfTheModelGoesToEveryRequestOfItsBatchOnce) {
  error_ = absl::InternalError("broken");
  Start({.most_batch = 2});
  const auto first = Submit(Examples({1, 2, 3}));
  End();
  EXPECT_EQ(Wait(first).status(), error_);
}

TEST_F(BatcherTest, OnlyTheRequestWithNumbersThatAreNotFiniteFails) {
  Start({.most_batch = 4, .most_wait = absl::Hours(1)});
  const auto good = Submit(Examples({1, 2}));
  const auto bad = Submit(Examples({std::numeric_limits<float>::max(), 1}));
  End();
  EXPECT_THAT(*Wait(good), ElementsAre(2, 4));
  EXPECT_THAT(std::string(Wait(bad).status().message()), HasSubstr("not finite"));
}

TEST_F(BatcherTest, ExamplesOfSeveralStepsAreReadSideBySide) {
  Start({.most_batch = 4, .most_wait = absl::Hours(1)});
  ServedExamples texts = Examples({1, 2, 3, 4, 5, 6});
  texts.count = 3;
  texts.steps = {3, 1, 2};
  const auto all = Submit(std::move(texts));
  const auto other = Submit(Steps({10, 20}));
  End();
  EXPECT_THAT(*Wait(all), ElementsAre(12, 8, 22));
  EXPECT_THAT(*Wait(other), ElementsAre(60));
  EXPECT_THAT(counts_, ElementsAre(1, 3, 2, 1, 1));  // the text of one step, the others' first, who ends then, the longest
  EXPECT_THAT(lengths_, ElementsAre(1, 1));
}

TEST_F(BatcherTest, ATextIsReadInPiecesAndItsLastStepAsked) {
  Start({.most_batch = 4});
  std::vector<float> numbers(32 + 32 + 8 + 8 + 1 + 1 + 1, 1);
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<float>(i);
  const auto text = Submit(Steps(numbers));
  End();
  EXPECT_THAT(*Wait(text), ElementsAre(82 * 83));
  EXPECT_THAT(lengths_, ElementsAre(32, 32, 8, 8, 1, 1));
  EXPECT_EQ(counts_.size(), 7);
}

TEST_F(BatcherTest, RowsThatReadAsManyStepsShareARunAndOthersHaveTheirTurn) {
  Start({.most_batch = 4, .most_wait = absl::Hours(1)});
  const auto longest = Submit(Steps(std::vector<float>(97, 1)));
  const auto other = Submit(Steps(std::vector<float>(33, 1)));
  const auto middle = Submit(Steps(std::vector<float>(9, 1)));
  const auto least = Submit(Examples({5}));
  End();
  EXPECT_THAT(*Wait(longest), ElementsAre(194));
  EXPECT_THAT(*Wait(other), ElementsAre(66));
  EXPECT_THAT(*Wait(middle), ElementsAre(18));
  EXPECT_THAT(*Wait(least), ElementsAre(10));
  // Of least; read of middle, of the two long ones; of middle and other; two more reads, the last.
  EXPECT_THAT(lengths_, ElementsAre(8, 32, 32, 32));
  EXPECT_THAT(counts_, ElementsAre(1, 1, 2, 2, 1, 1, 1));
}

TEST_F(BatcherTest, AnErrorOfReadingGoesToTheTextsThatRead) {
  Start({.most_batch = 4});
  error_ = absl::ResourceExhaustedError("no memory");
  const auto text = Submit(Steps({1, 2, 3}));
  End();
  EXPECT_EQ(Wait(text).status().message(), "no memory");
}

TEST_F(BatcherTest, ALongTextHoldsUpNoShortOne) {
  Start({.most_batch = 2});
  const auto longest = Submit(Steps(std::vector<float>(1000, 1)));
  const auto first = Submit(Steps({1, 1}));
  const auto second = Submit(Steps({2, 2}));
  End();
  EXPECT_THAT(*Wait(longest), ElementsAre(2000));
  EXPECT_THAT(*Wait(first), ElementsAre(4));
  EXPECT_THAT(*Wait(second), ElementsAre(8));
  EXPECT_LE(sizes_.size(), 45);
}

TEST_F(BatcherTest, ATextWhoseTimeIsOverIsReadNoFurther) {
  Start({});
  const absl::Time deadline = RealClock().Now() + absl::Milliseconds(1);
  const auto text = Submit(Steps(std::vector<float>(1000, 1)), absl::Milliseconds(1));
  while (RealClock().Now() < deadline + absl::Milliseconds(1)) std::this_thread::yield();  // the first batch waits for `go`
  End();
  EXPECT_TRUE(absl::IsDeadlineExceeded(Wait(text).status()));
  EXPECT_LE(sizes_.size(), 1);
}

TEST_F(BatcherTest, RequestsOfOneSequenceAreAnsweredInOrderAndOthersBesideThem) {
  Start({.most_batch = 8, .most_wait = absl::Hours(1)});
  const auto one = std::make_shared<CarriedRow>();
  const auto other = std::make_shared<CarriedRow>();
  const auto first = Submit(Examples({1}), kDeadline, one);
  const auto second = Submit(Examples({2}), kDeadline, one);
  const auto beside = Submit(Examples({100}), kDeadline, other);
  const auto third = Submit(Steps({3, 4}), kDeadline, one);
  const auto without = Submit(Examples({1000}));
  End();
  EXPECT_THAT(*Wait(first), ElementsAre(2));
  EXPECT_THAT(*Wait(second), ElementsAre(6));
  EXPECT_THAT(*Wait(third), ElementsAre(20));
  EXPECT_THAT(*Wait(beside), ElementsAre(200));
  EXPECT_THAT(*Wait(without), ElementsAre(2000));
  EXPECT_THAT(one->state, ElementsAre(20));
  EXPECT_THAT(other->state, ElementsAre(200));
  EXPECT_THAT(counts_, ElementsAre(3, 1, 1, 1));
}

TEST_F(BatcherTest, ASequenceStaysAsItWasWhenARequestFailsOrNobodyWaitsForIt) {
  Start({.most_wait = absl::ZeroDuration()});
  go_.Notify();
  const auto sequence = std::make_shared<CarriedRow>();
  EXPECT_THAT(*Wait(Submit(Examples({1}), kDeadline, sequence)), ElementsAre(2));
  EXPECT_FALSE(Wait(Submit(Examples({std::numeric_limits<float>::max()}), kDeadline, sequence)).ok());
  EXPECT_FALSE(Wait(Submit(Examples({1}), absl::ZeroDuration(), sequence)).ok());
  waits_ = false;
  EXPECT_THAT(*Wait(Submit(Examples({5}), kDeadline, sequence)), ElementsAre(12));
  waits_ = true;
  EXPECT_THAT(*Wait(Submit(Examples({10}), kDeadline, sequence)), ElementsAre(22));
}

}  // namespace
}  // namespace trainyard::engine
