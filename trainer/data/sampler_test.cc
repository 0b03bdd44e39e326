#include "trainer/data/sampler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

namespace trainyard::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Sampler Make(const SamplerOptions& options) {
  auto sampler = Sampler::Create(options);
  EXPECT_TRUE(sampler.ok()) << sampler.status();
  return *std::move(sampler);
}

std::vector<int64_t> IndicesAt(Sampler& sampler, int64_t step) {
  std::vector<int64_t> indices;
  sampler.Indices(sampler.At(step), indices);
  return indices;
}

// The examples of all workers at one step, in the order of their ranks.
std::vector<int64_t> GlobalIndicesAt(SamplerOptions options, int64_t step) {
  std::vector<int64_t> all;
  for (options.worker = 0; options.worker < options.workers; ++options.worker) {
    Sampler sampler = Make(options);
    std::vector<int64_t> indices = IndicesAt(sampler, step);
    all.insert(all.end(), indices.begin(), indices.end());
  }
  return all;
}

TEST(Sampler, EveryExampleIsReadOnceAnEpochOverAllWorkers) {
  for (int64_t examples : {1, 2, 3, 7, 8, 31, 64, 100, 101, 129}) {
    for (int workers : {1, 2, 3, 5}) {
      for (int64_t batch_size : {1, 2, 3, 16, 200}) {
        SCOPED_TRACE(testing::Message() << examples << " examples, " << workers << " workers, batch " << batch_size);
        const SamplerOptions options{.examples = examples, .batch_size = batch_size, .workers = workers};
        const int64_t steps = Make(options).StepsPerEpoch();
        for (int64_t epoch : {0, 1}) {
          std::vector<int64_t> seen;
          for (int64_t step = 0; step < steps; ++step) {
            std::vector<int64_t> indices = GlobalIndicesAt(options, epoch * steps + step);
            seen.insert(seen.end(), indices.begin(), indices.end());
          }
          std::sort(seen.begin(), seen.end());
          std::vector<int64_t> expected(examples);
          std::iota(expected.begin(), expected.end(), 0);
          ASSERT_EQ(seen, expected);
        }
      }
    }
  }
}

TEST(Sampler, SlicesOfAStepDifferByAtMostOneRowAndNoneIsEmpty) {
  for (int64_t examples : {13, 100, 101, 102, 103, 129}) {
    for (int workers : {2, 3, 5}) {
      for (int64_t batch_size : {2, 3, 16}) {
        SamplerOptions options{.examples = examples, .batch_size = batch_size, .workers = workers};
        const int64_t steps = Make(options).StepsPerEpoch();
        for (int64_t step = 0; step < steps; ++step) {
          std::vector<int64_t> rows;
          int64_t sum = 0;
          for (options.worker = 0; options.worker < workers; ++options.worker) {
            const SamplerStep at = Make(options).At(step);
            rows.push_back(at.examples());
            sum += at.examples();
            EXPECT_EQ(at.last_in_epoch, step == steps - 1);
            EXPECT_LE(at.examples(), batch_size);
            if (options.worker + 1 == workers) {
              EXPECT_EQ(sum, at.global_examples());
            }
          }
          EXPECT_GE(*std::min_element(rows.begin(), rows.end()), 1);
          EXPECT_LE(*std::max_element(rows.begin(), rows.end()) - *std::min_element(rows.begin(), rows.end()), 1);
        }
      }
    }
  }
}

TEST(Sampler, WorkersReadTogetherWhatOneWorkerWithABiggerBatchReads) {
  const SamplerOptions two{.examples = 1000, .batch_size = 64, .workers = 2};
  const SamplerOptions one{.examples = 1000, .batch_size = 128, .workers = 1};
  for (int64_t step = 0; step < 20; ++step) EXPECT_EQ(GlobalIndicesAt(two, step), GlobalIndicesAt(one, step)) << step;
}

TEST(Sampler, OrderFollowsSeedAndEpoch) {
  const auto order = [](uint64_t seed, int64_t epoch) {
    Sampler sampler = Make({.examples = 50, .batch_size = 50, .order = {.seed = seed}});
    return IndicesAt(sampler, epoch);
  };
  EXPECT_EQ(order(1, 0), order(1, 0));
  EXPECT_NE(order(1, 0), order(1, 1));
  EXPECT_NE(order(1, 0), order(2, 0));
}

// Changing this order would break every checkpoint that is to be resumed in the middle of an epoch.
TEST(Sampler, OrderIsTheSameOnEveryMachine) {
  Sampler sampler = Make({.examples = 8, .batch_size = 8, .order = {.seed = 1}});
  EXPECT_THAT(IndicesAt(sampler, 0), ElementsAre(3, 5, 2, 4, 1, 0, 6, 7));
}

TEST(Sampler, WithoutShuffleExamplesComeInOrder) {
  Sampler sampler = Make({.examples = 5, .batch_size = 2, .order = {.shuffle = {.kind = ShuffleConfig::Kind::kNone}}});
  EXPECT_THAT(IndicesAt(sampler, 1), ElementsAre(2, 3));
  EXPECT_THAT(IndicesAt(sampler, 2), ElementsAre(4));
}

TEST(Sampler, StepsMayBeAskedInAnyOrder) {
  Sampler sampler = Make({.examples = 100, .batch_size = 8});
  const std::vector<int64_t> late = IndicesAt(sampler, 40);
  IndicesAt(sampler, 3);
  EXPECT_EQ(IndicesAt(sampler, 40), late);
}

TEST(Sampler, StartingAtACheckpointsPositionGivesTheStepsThatWereLeft) {
  for (int64_t examples : {100, 101, 103}) {
    SamplerOptions options{.examples = examples, .batch_size = 8, .workers = 3, .worker = 1};
    Sampler whole = Make(options);
    for (int64_t done = 0; done < 14; ++done) {
      options.start = whole.PositionAfter(done);
      Sampler resumed = Make(options);
      for (int64_t step = 0; step < 12; ++step) {
        ASSERT_EQ(IndicesAt(resumed, step), IndicesAt(whole, done + step)) << examples << " examples, step " << step << " after " << done;
      }
      EXPECT_EQ(resumed.StepsUntilEpoch(3), whole.StepsUntilEpoch(3) - done);
    }
  }
}

TEST(Sampler, AnotherNumberOfWorkersGoesOnWithTheExamplesThatAreLeft) {
  const SamplerOptions four{.examples = 103, .batch_size = 5, .workers = 4};
  SamplerOptions six{.examples = 103, .batch_size = 5, .workers = 6};
  six.start = Make(four).PositionAfter(2);
  EXPECT_EQ(six.start, (SamplerPosition{0, 40}));
  std::vector<int64_t> seen;
  for (int64_t step = 0; step < 2; ++step) {
    std::vector<int64_t> indices = GlobalIndicesAt(four, step);
    seen.insert(seen.end(), indices.begin(), indices.end());
  }
  for (int64_t step = 0; step < Make(six).StepsIn(0); ++step) {
    std::vector<int64_t> indices = GlobalIndicesAt(six, step);
    seen.insert(seen.end(), indices.begin(), indices.end());
  }
  std::sort(seen.begin(), seen.end());
  std::vector<int64_t> expected(103);
  std::iota(expected.begin(), expected.end(), 0);
  EXPECT_EQ(seen, expected);
}

TEST(Sampler, GoingOnKeepsTheStepsNumberAndTheEpochsThatAreLeft) {
  const Sampler four = Make({.examples = 103, .batch_size = 5, .workers = 4});
  const Sampler six = Make({.examples = 103, .batch_size = 5, .workers = 6}).GoingOn(14, four.PositionAfter(14));
  EXPECT_EQ(six.PositionAfter(14), four.PositionAfter(14));
  EXPECT_EQ(six.At(14).global_begin, 40);
  EXPECT_EQ(six.At(14).epoch, 2);
  EXPECT_EQ(six.StepsUntilEpoch(3), 14 + 3) << "63 examples in steps of 30";
  EXPECT_EQ(six.StepsUntilEpoch(5), 14 + 3 + 2 * 4);
  EXPECT_EQ(six.StepsUntilEpoch(2), 14) << "those epochs are over";
  EXPECT_EQ(six.PositionAfter(17), (SamplerPosition{3, 0}));
  EXPECT_EQ(six.At(13).epoch, 2) << "the step before";
  EXPECT_EQ(six.At(13).examples(), 0);
  EXPECT_FALSE(six.At(13).last_in_epoch);
  const Sampler again = Make({.examples = 103, .batch_size = 5, .workers = 6}).GoingOn(16, six.PositionAfter(16));
  EXPECT_EQ(again.StepsUntilEpoch(5), six.StepsUntilEpoch(5));
}

TEST(Sampler, GoingOnAtAnEpochsEndKnowsThatTheEpochHasEnded) {
  const Sampler sampler = Make({.examples = 10, .batch_size = 4, .workers = 2}).GoingOn(6, {.epoch = 2, .offset = 0});
  EXPECT_EQ(sampler.At(5).epoch, 1);
  EXPECT_TRUE(sampler.At(5).last_in_epoch);
  EXPECT_EQ(sampler.At(6).epoch, 2);
}

TEST(Sampler, GoingOnTakesAPlaceThatThereIs) {
  const Sampler fewer = Make({.examples = 10, .batch_size = 4}).GoingOn(9, {.epoch = 1, .offset = 12});
  EXPECT_EQ(fewer.PositionAfter(9), (SamplerPosition{2, 0})) << "the data has shrunk";
  const Sampler rows = Make({.examples = 100, .stream_steps = 5, .batch_size = 2, .workers = 2}).GoingOn(3, {.epoch = 0, .offset = 6});
  EXPECT_EQ(rows.PositionAfter(3), (SamplerPosition{0, 4})) << "a step has 4 rows";
  const Sampler parts =
      Make({.examples = 10, .batch_size = 2, .workers = 2, .shard = ShardBy::kRanks}).GoingOn(4, {.epoch = 1, .offset = 6});
  EXPECT_EQ(parts.PositionAfter(4), (SamplerPosition{1, 0}));
}

TEST(Sampler, PositionAtAnEpochsEndIsTheNextEpochsBegin) {
  Sampler sampler = Make({.examples = 10, .batch_size = 4});
  EXPECT_EQ(sampler.PositionAfter(0), (SamplerPosition{0, 0}));
  EXPECT_EQ(sampler.PositionAfter(2), (SamplerPosition{0, 8}));
  EXPECT_EQ(sampler.PositionAfter(3), (SamplerPosition{1, 0}));
  EXPECT_EQ(sampler.StepsUntilEpoch(2), 6);
}

TEST(Sampler, OptionsThatCannotWorkAreRefused) {
  const auto error = [](const SamplerOptions& options) { return std::string(Sampler::Create(options).status().message()); };
  EXPECT_THAT(error({.examples = 0, .batch_size = 1}), HasSubstr("no examples"));
  EXPECT_THAT(error({.examples = 5, .batch_size = 0}), HasSubstr("batchSize is 0"));
  EXPECT_THAT(error({.examples = 5, .batch_size = 1, .workers = 2, .worker = 2}), HasSubstr("worker 2 is not one of 2"));
  EXPECT_THAT(error({.examples = 5, .batch_size = 1, .start = {0, 5}}), HasSubstr("cannot start at example 5 of epoch 0"));
}

// A stream of 26 tokens: 26 - 3 examples of 3 steps.
SamplerOptions Stream(int64_t batch_size, int workers) {
  return {.examples = 23, .stream_steps = 3, .batch_size = batch_size, .workers = workers};
}

TEST(Sampler, ARowOfAStreamGoesOnWhereTheStepBeforeEnded) {
  Sampler sampler = Make(Stream(2, 1));  // two rows of 13 tokens: 4 steps of 3, with a label after each
  EXPECT_EQ(sampler.StepsPerEpoch(), 4);
  EXPECT_THAT(IndicesAt(sampler, 0), ElementsAre(0, 13));
  EXPECT_THAT(IndicesAt(sampler, 1), ElementsAre(3, 16));
  EXPECT_THAT(IndicesAt(sampler, 3), ElementsAre(9, 22));
  EXPECT_TRUE(sampler.At(3).last_in_epoch);
  EXPECT_THAT(IndicesAt(sampler, 4), ElementsAre(0, 13)) << "the next epoch has the same order";
  EXPECT_EQ(sampler.At(4).epoch, 1);
  EXPECT_EQ(sampler.StepsUntilEpoch(3), 12);
  EXPECT_EQ(sampler.PositionAfter(2), (SamplerPosition{.epoch = 0, .offset = 4}));
}

TEST(Sampler, WorkersShareTheRowsOfAStream) {
  for (int64_t step = 0; step < Make(Stream(2, 2)).StepsPerEpoch(); ++step) {
    EXPECT_EQ(GlobalIndicesAt(Stream(2, 2), step), GlobalIndicesAt(Stream(4, 1), step)) << "step " << step;
  }
  SamplerOptions second = Stream(2, 2);
  second.worker = 1;
  Sampler sampler = Make(second);
  EXPECT_THAT(IndicesAt(sampler, 0), ElementsAre(12, 18)) << "rows 2 and 3 of 6 tokens";
  EXPECT_EQ(sampler.At(0).examples(), 2);
  EXPECT_EQ(sampler.At(0).global_examples(), 4);
}

TEST(Sampler, EveryExampleOfAStreamLiesInIt) {
  for (int64_t examples : {1, 5, 23, 97}) {
    for (int64_t batch_size : {1, 2, 5}) {
      const SamplerOptions options{.examples = examples, .stream_steps = 3, .batch_size = batch_size, .workers = 2};
      if ((examples + 3) / (2 * batch_size) < 4) continue;
      const int64_t steps = Make(options).StepsPerEpoch();
      EXPECT_GE(steps, 1);
      for (int64_t step = 0; step < steps; ++step) {
        EXPECT_THAT(GlobalIndicesAt(options, step), testing::Each(testing::AllOf(testing::Ge(0), testing::Lt(examples))));
      }
    }
  }
}

TEST(Sampler, AStreamGoesOnInsideAnEpoch) {
  SamplerOptions options = Stream(2, 1);
  options.start = {.epoch = 1, .offset = 4};
  Sampler sampler = Make(options);
  EXPECT_THAT(IndicesAt(sampler, 0), ElementsAre(6, 19));
  EXPECT_EQ(sampler.StepsIn(1), 2);
  options.start.offset = 3;
  EXPECT_THAT(std::string(Sampler::Create(options).status().message()), HasSubstr("a step reads 2 rows"));
}

TEST(Sampler, AStreamThatIsTooShortIsNamed) {
  EXPECT_EQ(
      Sampler::Create(Stream(4, 2)).status().message(),
      "26 tokens are too few for 8 rows (batchSize 4, 2 workers) of 3 steps, expected 32 or more; use a smaller batchSize, fewer steps "
      "or more text");
}

TEST(Sampler, RanksKeepToPartsOfTheirOwn) {
  for (int64_t examples : {7, 8, 31, 64, 101, 129}) {
    for (int workers : {1, 2, 3, 5}) {
      for (int64_t batch_size : {1, 2, 16, 200}) {
        SCOPED_TRACE(testing::Message() << examples << " examples, " << workers << " workers, batch " << batch_size);
        SamplerOptions options{.examples = examples, .batch_size = batch_size, .workers = workers, .shard = ShardBy::kRanks};
        int64_t next_part = 0;
        for (options.worker = 0; options.worker < workers; ++options.worker) {
          Sampler sampler = Make(options);
          const int64_t steps = sampler.StepsPerEpoch();
          std::vector<int64_t> first;
          for (int64_t epoch : {0, 1}) {
            std::vector<int64_t> seen;
            for (int64_t step = 0; step < steps; ++step) {
              const std::vector<int64_t> indices = IndicesAt(sampler, epoch * steps + step);
              EXPECT_EQ(static_cast<int64_t>(indices.size()), sampler.At(epoch * steps + step).examples());
              seen.insert(seen.end(), indices.begin(), indices.end());
            }
            std::sort(seen.begin(), seen.end());
            if (epoch == 0) first = seen;
            ASSERT_EQ(seen, first) << "the part changed";
          }
          std::vector<int64_t> part(first.size());
          std::iota(part.begin(), part.end(), next_part);
          ASSERT_EQ(first, part);
          next_part += static_cast<int64_t>(part.size());
        }
        ASSERT_EQ(next_part, examples);
      }
    }
  }
}

TEST(Sampler, RanksStartAtTheBeginningOfAnEpoch) {
  const auto sampler = Sampler::Create({.examples = 10, .batch_size = 2, .shard = ShardBy::kRanks, .start = {.epoch = 1, .offset = 4}});
  EXPECT_THAT(std::string(sampler.status().message()), HasSubstr("cannot start at example 4"));
}

}  // namespace
}  // namespace trainyard::engine
