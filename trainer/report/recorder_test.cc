#include "trainer/report/recorder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "trainer/base/fake_clock.h"
#include "trainer/data/batch.h"
#include "trainer/report/proto/event.pb.h"
#include "trainer/tfrecord/tfrecord.h"

namespace trainyard::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;
using ::testing::SizeIs;

TEST(RecorderTest, ARunThatIsRolledBackAfterItsLastStepTellsTheEpochOnce) {
  const std::string dir = ::testing::TempDir() + "recorder_test";
  std::filesystem::remove_all(dir);
  FakeClock clock;
  const auto recorder = Recorder::Create({.output = dir, .summary_every = 0, .termination_log = ""}, clock);
  ASSERT_TRUE(recorder.ok()) << recorder.status();
  const ParameterSet parameters;
  (*recorder)->OnStart(0, 2);
  for (int64_t step = 0; step < 2; ++step) {
    const absl::Time now = clock.Now();
    ASSERT_TRUE((*recorder)
                    ->OnStep({.step = step,
                              .global_step = step + 1,
                              .examples = 4,
                              .loss = 0.5,
                              .start = now,
                              .input_done = now,
                              .compute_done = now,
                              .end = now})
                    .ok());
  }
  ASSERT_TRUE((*recorder)->OnEpoch(0, 2, {}, parameters).ok());
  (*recorder)->OnRollback(2, 2);
  ASSERT_TRUE((*recorder)->OnEpoch(0, 2, {{"accuracy", 0.9}}, parameters).ok());
  ASSERT_TRUE((*recorder)->Finish({}, 0, 0).ok());
  const auto reports = ReadReplicaReports(dir);
  ASSERT_TRUE(reports.ok()) << reports.status();
  ASSERT_THAT(*reports, SizeIs(1));
  ASSERT_THAT(reports->front().history, SizeIs(1));
  EXPECT_EQ(reports->front().history[0].loss, 0.5);
  EXPECT_EQ(reports->front().history[0].eval.at("accuracy"), 0.9);
}

void Step(Recorder& recorder, int64_t step, double loss) {
  ASSERT_TRUE(recorder.OnStep({.step = step, .global_step = step + 1, .examples = 4, .loss = loss}).ok());
}

TEST(RecorderTest, AStoppedChiefLeavesTheStepOfItsCheckpointAndAFinishedOneTheLast) {
  const std::string dir = ::testing::TempDir() + "recorder_stopped_test";
  std::filesystem::remove_all(dir);
  FakeClock clock;
  for (const bool finished : {false, true}) {
    const std::string log = dir + "-termination-log";
    std::ofstream(log) << "nothing";
    auto recorder = Recorder::Create({.chief = true, .output = dir, .summary_every = 0, .termination_log = log}, clock);
    ASSERT_TRUE(recorder.ok()) << recorder.status();
    (*recorder)->OnStart(0, 20);
    for (int64_t step = 0; step < 12; ++step) Step(**recorder, step, 0.5);
    if (finished) {
      ASSERT_TRUE((*recorder)->Finish({.steps = 12}, 0, 0).ok());
    } else {
      (*recorder)->OnStopped(10);
    }
    std::ifstream file(log);
    const nlohmann::json left = nlohmann::json::parse(std::string(std::istreambuf_iterator<char>(file), {}));
    EXPECT_EQ(left["step"], finished ? 12 : 10);
    EXPECT_EQ(left["totalSteps"], finished ? 12 : 20);
    EXPECT_EQ(left["loss"], 0.5);
  }
}

TEST(RecorderTest, AChiefThatGoesOnReportsTheEpochsBeforeItAndAnEpochThatBrokeHasTheLossOfAllItsSteps) {
  const std::string dir = ::testing::TempDir() + "recorder_epochs_test";
  std::filesystem::remove_all(dir);
  FakeClock clock;
  const ParameterSet parameters;
  {
    auto killed = Recorder::Create({.chief = true, .output = dir, .summary_every = 0, .termination_log = ""}, clock);
    (*killed)->OnStart(0, 6);
    Step(**killed, 0, 4);
    Step(**killed, 1, 4);
    ASSERT_TRUE((*killed)->OnEpoch(0, 2, {{"accuracy", 0.5}}, parameters).ok());
  }
  auto next = Recorder::Create({.chief = true, .output = dir, .summary_every = 0, .termination_log = ""}, clock);
  (*next)->OnStart(2, 6);
  Step(**next, 2, 3);
  (*next)->OnRollback(3, 6);  // nothing is done again
  Step(**next, 3, 1);
  ASSERT_TRUE((*next)->OnEpoch(1, 4, {}, parameters).ok());
  Step(**next, 4, 100);
  (*next)->OnRollback(4, 6);
  Step(**next, 4, 1);
  Step(**next, 5, 1);
  ASSERT_TRUE((*next)->OnEpoch(2, 6, {}, parameters).ok());
  ASSERT_TRUE((*next)->Finish({}, 0, 0).ok());
  const auto reports = ReadReplicaReports(dir);
  ASSERT_TRUE(reports.ok()) << reports.status();
  const std::vector<EpochRecord>& history = reports->at(0).history;
  ASSERT_THAT(history, SizeIs(3));
  EXPECT_EQ(history[0].eval.at("accuracy"), 0.5);
  EXPECT_EQ(history[1].loss, 2);
  EXPECT_EQ(history[2].loss, 1);
}

std::unique_ptr<Recorder> ChiefIn(const std::string& dir, Clock& clock) {
  auto chief = Recorder::Create({.chief = true, .output = dir, .summary_every = 0, .termination_log = ""}, clock);
  EXPECT_TRUE(chief.ok()) << chief.status();
  return *std::move(chief);
}

// What a checkpoint notes of an epoch with the losses 4 and 6 so far.
std::string AfterTwoSteps(Recorder& chief) {
  chief.OnStart(0, 4);
  Step(chief, 0, 4);
  Step(chief, 1, 6);
  return chief.EpochLossText();
}

TEST(RecorderTest, AChiefThatGoesOnInsideAnEpochTellsTheLossOfAllItsSteps) {
  const std::string dir = ::testing::TempDir() + "recorder_inside_epoch_test";
  std::filesystem::remove_all(dir);
  FakeClock clock;
  const ParameterSet parameters;
  std::string checkpointed;
  {
    const auto killed = ChiefIn(dir, clock);
    checkpointed = AfterTwoSteps(*killed);
    Step(*killed, 2, 100);
  }
  const auto next = ChiefIn(dir, clock);
  next->OnEpochLoss(checkpointed);
  next->OnStart(2, 4);
  Step(*next, 2, 1);
  next->OnEpochLoss(checkpointed);
  next->OnRollback(2, 4);  // as where servers have lost their values
  Step(*next, 2, 3);
  Step(*next, 3, 3);
  ASSERT_TRUE(next->OnEpoch(0, 4, {}, parameters).ok());
  EXPECT_FALSE(next->OwesEpoch(4));
  ASSERT_TRUE(next->Finish({}, 0, 0).ok());
  const auto reports = ReadReplicaReports(dir);
  ASSERT_TRUE(reports.ok()) << reports.status();
  ASSERT_THAT(reports->at(0).history, SizeIs(1));
  EXPECT_EQ(reports->at(0).history[0].loss, 4);
}

TEST(RecorderTest, AChiefThatGoesOnFromTheEndOfAnEpochThatWasNotToldOwesIt) {
  const std::string dir = ::testing::TempDir() + "recorder_owed_epoch_test";
  std::filesystem::remove_all(dir);
  FakeClock clock;
  const ParameterSet parameters;
  const std::string checkpointed = AfterTwoSteps(*ChiefIn(dir, clock));
  for (const bool first : {true, false}) {
    const auto next = ChiefIn(dir, clock);
    next->OnEpochLoss(checkpointed);
    next->OnStart(2, 4);
    EXPECT_EQ(next->OwesEpoch(2), first);
    ASSERT_TRUE(next->OnEpoch(0, 2, {{"accuracy", 0.5}}, parameters).ok());
    EXPECT_FALSE(next->OwesEpoch(2));
    ASSERT_TRUE(next->Finish({}, 0, 0).ok());
    const auto reports = ReadReplicaReports(dir);
    ASSERT_TRUE(reports.ok()) << reports.status();
    ASSERT_THAT(reports->at(0).history, SizeIs(1));
    EXPECT_EQ(reports->at(0).history[0].loss, 5);
  }
}

TEST(RecorderTest, SkippedCheckpointsAreInTheReportAndDoNotSilenceALossThatRises) {
  const std::string dir = ::testing::TempDir() + "recorder_skipped_test";
  std::filesystem::remove_all(dir);
  FakeClock clock;
  const auto recorder = Recorder::Create({.output = dir, .summary_every = 0, .termination_log = ""}, clock);
  ASSERT_TRUE(recorder.ok()) << recorder.status();
  (*recorder)->OnSkippedCheckpoints({});
  EXPECT_EQ((*recorder)->warning(), "");
  (*recorder)->OnSkippedCheckpoints({{.replica = "checkpoint", .reason = "skipped c/step-142: torn", .step = 100, .lost_steps = 2},
                                     {.replica = "checkpoint", .reason = "skipped c/step-140: torn", .step = 100, .lost_steps = 40}});
  EXPECT_EQ((*recorder)->warning(), "skipped c/step-142: torn, and 1 more: the training goes on from step 100, and 42 steps are lost");
  (*recorder)->OnStart(100, 200);
  for (int64_t step = 100; step < 200; ++step) {
    const absl::Time now = clock.Now();
    ASSERT_TRUE((*recorder)
                    ->OnStep({.step = step,
                              .global_step = step + 1,
                              .examples = 4,
                              .loss = step < 120 ? 0.5 : 50,
                              .start = now,
                              .input_done = now,
                              .compute_done = now,
                              .end = now})
                    .ok());
  }
  EXPECT_THAT((*recorder)->warning(), ::testing::HasSubstr("far above 0.5 at its start"));
  ASSERT_TRUE((*recorder)->Finish({}, 0, 0).ok());
  const auto reports = ReadReplicaReports(dir);
  ASSERT_TRUE(reports.ok()) << reports.status();
  ASSERT_THAT(reports->at(0).restarts, SizeIs(2));
  EXPECT_EQ(reports->at(0).restarts[1].lost_steps, 40);
}

class OneGpu final : public GpuMeter {
 public:
  std::vector<GpuReading> Read() override {
    return {{.gpu = 0, .name = "Fake", .memory_used_bytes = 30, .memory_total_bytes = 80, .utilization = 0.5}};
  }
};

std::string AllEventsOf(const std::string& dir) {
  std::string events;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(dir)) {
    if (!entry.is_regular_file()) continue;
    std::ifstream file(entry.path());
    events.append(std::istreambuf_iterator<char>(file), {});
  }
  return events;
}

std::vector<tensorboard::Event> ParsedEventsOf(const std::string& dir) {
  const std::string events = AllEventsOf(dir);
  std::vector<tensorboard::Event> parsed;
  for (std::string_view rest = events; !rest.empty();) {
    const auto record = TakeTfRecord(rest);
    EXPECT_TRUE(record.ok()) << record.status();
    if (!record.ok()) return parsed;
    EXPECT_TRUE(parsed.emplace_back().ParseFromString(std::string(*record)));
  }
  return parsed;
}

// A run of one step; the events that it wrote.
std::string EventsOfAStepOn(GpuMeter* gpus, std::optional<std::vector<GpuRecord>>& reported) {
  const std::string dir = ::testing::TempDir() + "recorder_gpu_test";
  std::filesystem::remove_all(dir);
  FakeClock clock;
  auto recorder =
      Recorder::Create({.output = dir, .summary_dir = dir + "/summaries", .summary_every = 1, .termination_log = "", .gpus = gpus}, clock);
  EXPECT_TRUE(recorder.ok()) << recorder.status();
  const absl::Time now = clock.Now();
  (*recorder)->OnStart(0, 1);
  EXPECT_TRUE((*recorder)
                  ->OnStep({.step = 0, .global_step = 1, .examples = 4, .start = now, .input_done = now, .compute_done = now, .end = now})
                  .ok());
  EXPECT_TRUE((*recorder)->Finish({}, 0, 0).ok());
  reported = ReadReplicaReports(dir)->front().worker->gpus;
  return AllEventsOf(dir + "/summaries");
}

TEST(RecorderTest, GpusAreInSummariesAndReportOfAReplicaThatComputesOnThemAlone) {
  OneGpu meter;
  std::optional<std::vector<GpuRecord>> gpus;
  const std::string events = EventsOfAStepOn(&meter, gpus);
  EXPECT_NE(events.find("gpu/0/memory_used_mib"), std::string::npos);
  EXPECT_NE(events.find("gpu/0/utilization_percent"), std::string::npos);
  ASSERT_TRUE(gpus.has_value());
  ASSERT_THAT(*gpus, SizeIs(1));
  EXPECT_EQ(gpus->front().max_memory_used_bytes, 30);
  EXPECT_EQ(EventsOfAStepOn(nullptr, gpus).find("gpu/"), std::string::npos);
  EXPECT_FALSE(gpus.has_value());
}

// The events of a run that is given a batch of one example of `shape`.
std::string EventsOfBytes(const Shape& shape) {
  const std::string dir = ::testing::TempDir() + "recorder_images_test";
  std::filesystem::remove_all(dir);
  FakeClock clock;
  auto recorder = Recorder::Create({.output = dir, .summary_dir = dir + "/summaries", .termination_log = ""}, clock);
  EXPECT_TRUE(recorder.ok()) << recorder.status();
  Batch batch;
  batch.Resize(1, DType::kU8, shape, DType::kI32, {});
  std::ranges::fill(batch.x.values<uint8_t>(), uint8_t{7});
  EXPECT_TRUE((*recorder)->OnImages(batch).ok());
  EXPECT_TRUE((*recorder)->Finish({}, 0, 0).ok());
  return AllEventsOf(dir + "/summaries");
}

TEST(RecorderTest, SummariesTellWhereTheTrainingGoesOn) {
  const std::string dir = ::testing::TempDir() + "recorder_goes_on_test";
  std::filesystem::remove_all(dir);
  FakeClock clock;
  auto recorder = Recorder::Create({.output = dir, .summary_dir = dir + "/summaries", .termination_log = ""}, clock);
  ASSERT_TRUE(recorder.ok()) << recorder.status();
  (*recorder)->OnStart(4, 9);
  (*recorder)->OnRollback(2, 9);
  EXPECT_TRUE((*recorder)->Finish({}, 0, 0).ok());
  std::vector<int64_t> starts;
  for (const tensorboard::Event& event : ParsedEventsOf(dir + "/summaries")) {
    if (event.has_session_log()) starts.push_back(event.step());
  }
  EXPECT_THAT(starts, ElementsAre(5, 3));
}

// The scalars of this tag, with their steps.
std::vector<std::pair<int64_t, float>> ScalarsOf(const std::string& dir, const std::string& tag) {
  std::vector<std::pair<int64_t, float>> scalars;
  for (const tensorboard::Event& event : ParsedEventsOf(dir)) {
    for (const tensorboard::Summary::Value& value : event.summary().value()) {
      if (value.tag() == tag) scalars.emplace_back(event.step(), value.simple_value());
    }
  }
  return scalars;
}

TEST(RecorderTest, TheSummariesOfTheChiefHaveTheLearningRate) {
  for (const bool chief : {true, false}) {
    const std::string dir = ::testing::TempDir() + "recorder_learning_rate_test";
    std::filesystem::remove_all(dir);
    FakeClock clock;
    auto recorder = Recorder::Create(
        {.chief = chief, .output = dir, .summary_dir = dir + "/summaries", .summary_every = 1, .termination_log = ""}, clock);
    ASSERT_TRUE(recorder.ok()) << recorder.status();
    (*recorder)->OnStart(6, 9);
    ASSERT_TRUE((*recorder)->OnStep({.step = 6, .global_step = 7, .examples = 4, .learning_rate = 0.25}).ok());
    ASSERT_TRUE((*recorder)->Finish({}, 0, 0).ok());
    const auto rates = ScalarsOf(dir + "/summaries", "learning_rate");
    EXPECT_THAT(rates, SizeIs(chief ? 1 : 0));
    for (const auto& rate : rates) EXPECT_THAT(rate, Pair(7, 0.25));
  }
}

TEST(RecorderTest, ALossThatEndsTheTrainingStandsBehindTheStepsBeforeIt) {
  const std::string dir = ::testing::TempDir() + "recorder_not_finite_test";
  std::filesystem::remove_all(dir);
  FakeClock clock;
  auto recorder = Recorder::Create({.output = dir, .summary_dir = dir + "/summaries", .summary_every = 1, .termination_log = ""}, clock);
  ASSERT_TRUE(recorder.ok()) << recorder.status();
  (*recorder)->OnStart(0, 99);
  ASSERT_TRUE((*recorder)->OnStep({.step = 0, .global_step = 40, .examples = 4, .loss = 0.5}).ok());  // other workers did 39
  (*recorder)->OnNotFinite({.step = 1, .examples = 4, .loss = std::numeric_limits<double>::infinity()});
  EXPECT_THAT(ScalarsOf(dir + "/summaries", "loss"), ElementsAre(Pair(40, 0.5), Pair(41, std::numeric_limits<float>::infinity())));
}

TEST(RecorderTest, EveryEvaluationIsInTheSummariesAtItsStepAndSurvivesAKill) {
  const std::string dir = ::testing::TempDir() + "recorder_evaluations_test";
  std::filesystem::remove_all(dir);
  FakeClock clock;
  auto recorder = Recorder::Create({.output = dir, .summary_dir = dir + "/summaries", .termination_log = ""}, clock);
  ASSERT_TRUE(recorder.ok()) << recorder.status();
  (*recorder)->OnStart(0, 9);
  const Evaluation inside{.step = 2, .epoch = 0, .metrics = {{"loss", 0.5}}};
  const Evaluation at_end{.step = 3, .epoch = 0, .metrics = {{"loss", 0.25}}};
  ASSERT_TRUE((*recorder)->OnOwnEvaluation(inside, {}).ok());
  ASSERT_TRUE((*recorder)->OnOwnEvaluation(at_end, {}).ok());
  ASSERT_TRUE((*recorder)->OnEpoch(0, 3, at_end.metrics, {}).ok());
  EXPECT_THAT(ScalarsOf(dir + "/summaries", "eval/loss"), ElementsAre(Pair(2, 0.5), Pair(3, 0.25)));  // not even closed
}

TEST(RecorderTest, BytesThatNoPngCanShowAreLeftOutOfTheSummaries) {
  EXPECT_NE(EventsOfBytes({4, 5, 3}).find("input/0"), std::string::npos);
  EXPECT_EQ(EventsOfBytes({4, 5, 2}).find("input/0"), std::string::npos);
  EXPECT_EQ(EventsOfBytes({1, 20000, 1}).find("input/0"), std::string::npos);
}

}  // namespace
}  // namespace trainyard::engine
