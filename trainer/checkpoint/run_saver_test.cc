#include "trainer/checkpoint/run_saver.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <filesystem>

#include "absl/synchronization/notification.h"
#include "trainer/base/fake_clock.h"
#include "trainer/base/faulty_disk.h"
#include "trainer/base/file_error.h"

namespace trainyard::engine {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::vector<ParameterSpec> Specs() { return {{"dense/kernel", {2, 3}}}; }

TrainingState StateAt(int64_t step, float value) {
  TrainingState state{.parameters = ParameterSet(Specs()), .slots = {}, .step = step};
  state.slots.emplace_back(Specs());
  std::ranges::fill(state.parameters.values(0), value);
  std::ranges::fill(state.slots[0].values(0), value / 2);
  return state;
}

class RunSaverTest : public ::testing::Test {
 protected:
  void SetUp() override {
    dir_ = ::testing::TempDir() + "run_saver_test_" + ::testing::UnitTest::GetInstance()->current_test_info()->name();
    fs::remove_all(dir_);
    config_.model.name = "one";
    saver_ = Make();
  }
  std::unique_ptr<RunSaver> Make() {
    return std::make_unique<RunSaver>(RunSaverOptions{.dir = dir_, .specs = Specs(), .slot_names = {"momentum"}}, config_, sampler_, clock_,
                                      disk_);
  }
  // Steps of the checkpoints that were written since the last call.
  std::vector<int64_t> Finished() {
    const auto finished = saver_->Finished();
    EXPECT_TRUE(finished.ok()) << finished.status();
    std::vector<int64_t> steps;
    for (const RunSaver::Saved& saved : *finished) {
      steps.push_back(saved.step);
      EXPECT_EQ(saved.digest, *CheckpointStore::DigestOf(saver_->checkpoints().PathOf(saved.step)));
    }
    return steps;
  }
  void FailWritesWith(const absl::Status& status) {
    disk_.before = [status](int) { return status; };
  }

  std::string dir_;
  TrainingConfig config_;
  Sampler sampler_ = *Sampler::Create({.examples = 100, .batch_size = 10});
  FakeClock clock_;
  FaultyDisk disk_;
  std::unique_ptr<RunSaver> saver_;
};

TEST_F(RunSaverTest, TheCallerGoesOnWhileACheckpointIsWrittenFromWhatItWas) {
  absl::Notification disk_moves;
  disk_.on_append = [&](size_t) { disk_moves.WaitForNotification(); };
  TrainingState state = StateAt(5, 1);
  ASSERT_TRUE(saver_->SaveMeanwhile(std::move(state), {.step = 5}).ok());
  EXPECT_THAT(Finished(), IsEmpty());  // the disk stands still, this thread does not
  EXPECT_EQ(saver_->checkpointed_step(), 5);
  disk_moves.Notify();
  ASSERT_TRUE(saver_->Settle().ok());
  EXPECT_THAT(Finished(), ElementsAre(5));
  EXPECT_THAT(Finished(), IsEmpty());
  const auto loaded = Make()->Load(RunSaver::Which::kNewest);
  ASSERT_TRUE(loaded.ok() && loaded->state);
  EXPECT_EQ(loaded->state->step, 5);
  EXPECT_THAT(loaded->state->parameters.values(0), Each(1.0F));
  EXPECT_THAT(loaded->state->slots[0].values(0), Each(0.5F));
}

TEST_F(RunSaverTest, TheNextCheckpointWaitsForTheOneUnderWay) {
  ASSERT_TRUE(saver_->SaveMeanwhile(StateAt(5, 1), {.step = 5}).ok());
  ASSERT_TRUE(saver_->SaveMeanwhile(StateAt(6, 2), {.step = 6}).ok());
  ASSERT_TRUE(saver_->SaveBestMeanwhile(StateAt(6, 2), {.step = 6}, {{"judged", "yes"}}).ok());
  const TrainingState last = StateAt(7, 3);
  ASSERT_TRUE(saver_->Save(StateView(last), {.step = 7}).ok());
  EXPECT_THAT(Finished(), ElementsAre(5, 6, 7));
  EXPECT_EQ((*saver_->LoadBest())->info().step, 6);
  EXPECT_EQ((*saver_->LoadBest())->info().state.at("judged"), "yes");
}

TEST_F(RunSaverTest, ACheckpointKeepsTheLossScaleWhereThereIsOne) {
  ASSERT_TRUE(saver_->SaveMeanwhile(StateAt(5, 1), {.step = 5}).ok());
  EXPECT_EQ(saver_->Load(RunSaver::Which::kNewest)->loss_scale, "");
  ASSERT_TRUE(saver_->SaveMeanwhile(StateAt(6, 1), {.step = 6, .carried = {}, .loss_scale = "512 7 1"}).ok());
  EXPECT_EQ(saver_->Load(RunSaver::Which::kNewest)->loss_scale, "512 7 1");
  EXPECT_FALSE(saver_->Load(RunSaver::Which::kNewest)->loss_start.has_value());
  ASSERT_TRUE(saver_->SaveMeanwhile(StateAt(7, 1), {.step = 7, .carried = {}, .loss_start = 2.25}).ok());
  EXPECT_EQ(saver_->Load(RunSaver::Which::kNewest)->loss_start, 2.25);
  EXPECT_EQ(Make()->NewestLosses().start, 2.25);
  EXPECT_EQ(saver_->Load(RunSaver::Which::kNewest)->epoch_loss, "");
  ASSERT_TRUE(saver_->SaveMeanwhile(StateAt(8, 1), {.step = 8, .carried = {}, .epoch_loss = "0 4.5 9"}).ok());
  EXPECT_EQ(saver_->Load(RunSaver::Which::kNewest)->epoch_loss, "0 4.5 9");
  EXPECT_EQ(Make()->NewestLosses().of_epoch, "0 4.5 9");
}

TEST_F(RunSaverTest, ACheckpointOfAnotherOptimizerIsTold) {
  ASSERT_TRUE(saver_->SaveMeanwhile(StateAt(5, 1), {.step = 5}).ok());
  ASSERT_TRUE(saver_->Settle().ok());
  config_.optimizer.name = "adam";
  RunSaver adam({.dir = dir_, .specs = Specs(), .slot_names = {"mean", "variance"}}, config_, sampler_, clock_, disk_);
  EXPECT_THAT(std::string(adam.Load(RunSaver::Which::kNewest).status().message()),
              AllOf(HasSubstr("step-5 has no tensor 'dense/kernel/mean': another optimizer than adam wrote it"), HasSubstr("Use another")));
}

class DescribedRunSaverTest : public RunSaverTest {
 protected:
  // What a job of that description says to the checkpoint of a job of the other one; "": nothing.
  std::string ErrorOf(const std::string& before, const std::string& now) {
    RunSaver writer(OptionsWith(before), config_, sampler_, clock_, disk_);
    const TrainingState state = StateAt(5, 1);
    EXPECT_TRUE(writer.Save(StateView(state), {.step = 5}).ok());
    RunSaver reader(OptionsWith(now), config_, sampler_, clock_, disk_);
    return std::string(reader.Load(RunSaver::Which::kNewest).status().message());
  }
  RunSaverOptions OptionsWith(const std::string& description) {
    return {.dir = dir_, .specs = Specs(), .slot_names = {"momentum"}, .description = description};
  }
  static std::string Described(const std::string& format, const std::string& rest) {
    return R"({"training": {"data": {"format": ")" + format + R"("}}, )" + rest + "}";
  }
};

TEST_F(DescribedRunSaverTest, ClassesThatHaveOtherNumbersThanInTheCheckpointAreRefused) {
  const std::string before = Described("images", R"("classes": ["cat", "dog"])");
  EXPECT_EQ(ErrorOf(before, before), "");
  EXPECT_THAT(ErrorOf(before, Described("images", R"("classes": ["dog", "zebra"])")),
              HasSubstr("step-5 was trained with other data: class 0 is \"cat\" there and \"dog\" in this job. Use another output folder"));
  EXPECT_THAT(ErrorOf(before, Described("images", R"("classes": ["cat"])")), HasSubstr("class 1 is \"dog\" there and nothing"));
  EXPECT_EQ(ErrorOf(Described("idx", R"("classes": ["0", "1"])"), Described("idx", R"("classes": ["shirt", "shoe"])")), "")
      << "the files have the numbers";
  EXPECT_EQ(ErrorOf("", before), "") << "of an older version";
}

TEST_F(DescribedRunSaverTest, ColumnsThatBecomeOtherInputsAreRefusedAndOtherScalesTold) {
  const auto columns = [](const std::string& categories, double mean) {
    return Described("csv", R"("columns": [{"name": "colour", "type": "category", "categories": )" + categories +
                                R"(}, {"name": "age", "type": "number", "mean": )" + std::to_string(mean) + R"(, "std": 2}])");
  };
  const std::string before = columns(R"(["blue", "red"])", 3);
  EXPECT_EQ(ErrorOf(before, before), "");
  EXPECT_EQ(ErrorOf(before, columns(R"(["blue", "red"])", 4)), "");
  EXPECT_THAT(ErrorOf(before, columns(R"(["green", "red"])", 3)),
              HasSubstr("of column \"colour\", category 0 is \"blue\" there and \"green\" in this job"));
  EXPECT_THAT(ErrorOf(before, Described("csv", R"("columns": [{"name": "age"}])")), HasSubstr("column 0 is"));
}

TEST_F(DescribedRunSaverTest, ALabelThatIsStandardisedOnOneSideAloneIsRefused) {
  const auto label = [](const std::string& rest) {
    return Described("csv", R"("columns": [{"name": "age", "type": "number", "mean": 1, "std": 2}])" + rest);
  };
  const std::string before = label(R"(, "label": {"mean": 10, "std": 4})");
  EXPECT_EQ(ErrorOf(before, before), "");
  EXPECT_EQ(ErrorOf(before, label(R"(, "label": {"mean": 11, "std": 4})")), "");
  EXPECT_EQ(ErrorOf(label(""), label("")), "");
  EXPECT_THAT(ErrorOf(before, label("")), HasSubstr("it is standardised there and not in this job (standardizeLabel). Use another output"));
  EXPECT_THAT(ErrorOf(label(""), before), HasSubstr("it is as the files have it there and standardised in this job"));
}

TEST_F(RunSaverTest, ACheckpointOfOtherStepsOfAnEpochSaysWhereItsInputGoesOn) {
  ASSERT_TRUE(saver_->SaveMeanwhile(StateAt(12, 1), {.step = 12}).ok());
  ASSERT_TRUE(saver_->Settle().ok());
  EXPECT_EQ(saver_->Load(RunSaver::Which::kNewest)->state->origin, InputOrigin()) << "10 steps an epoch here and there";
  const Sampler wider = *Sampler::Create({.examples = 100, .batch_size = 10, .workers = 4});
  RunSaver other({.dir = dir_, .specs = Specs(), .slot_names = {"momentum"}}, config_, wider, clock_, disk_);
  EXPECT_EQ(other.Load(RunSaver::Which::kNewest)->state->origin, (InputOrigin{.step = 12, .epoch = 1, .offset = 20}));
  const Sampler going_on = wider.GoingOn(12, {.epoch = 1, .offset = 20});
  RunSaver again({.dir = dir_, .specs = Specs(), .slot_names = {"momentum"}}, config_, going_on, clock_, disk_);
  EXPECT_EQ(again.Load(RunSaver::Which::kNewest)->state->origin, (InputOrigin{.step = 12, .epoch = 1, .offset = 20}));
}

TEST_F(RunSaverTest, TheEndOfTheObjectWaitsForTheSaveUnderWay) {
  ASSERT_TRUE(saver_->SaveMeanwhile(StateAt(5, 1), {.step = 5}).ok());
  saver_.reset();
  EXPECT_EQ((*Make()->Load(RunSaver::Which::kNewest)).state->step, 5);
}

TEST_F(RunSaverTest, WhatLayersCarriedComesFromTheCheckpointOfTheStepAlsoWithoutALoad) {
  const std::vector<ParameterSpec> specs = {{"lstm/h", {3}}};
  ParameterSet carried(specs);
  std::ranges::fill(carried.values(0), 7.0F);
  ASSERT_TRUE(saver_->Save(StateView(StateAt(5, 1)), {.step = 5, .carried = {&carried}}).ok());
  ASSERT_TRUE(saver_->Save(StateView(StateAt(6, 1)), {.step = 6}).ok());
  ParameterSet found(specs);
  EXPECT_EQ(Make()->RestoreCarried(0, 4, found).code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(Make()->RestoreCarried(0, 6, found).code(), absl::StatusCode::kNotFound);  // it holds none
  EXPECT_THAT(found.values(0), Each(0.0F));
  const absl::Status restored = Make()->RestoreCarried(0, 5, found);
  ASSERT_TRUE(restored.ok()) << restored;
  EXPECT_THAT(found.values(0), Each(7.0F));
}

TEST_F(RunSaverTest, EachDeviceOfTheChiefFindsWhatItsLayersCarried) {
  const std::vector<ParameterSpec> specs = {{"lstm/h", {3}}};
  std::vector<ParameterSet> carried;
  for (const float value : {7.0F, 8.0F}) {
    carried.emplace_back(specs);
    std::ranges::fill(carried.back().values(0), value);
  }
  ASSERT_TRUE(saver_->SaveMeanwhile(StateAt(5, 1), {.step = 5, .carried = {&carried[0], &carried[1]}}).ok());
  ASSERT_TRUE(saver_->Settle().ok());
  ParameterSet found(specs);
  for (const int device : {1, 0}) {
    const absl::Status restored = Make()->RestoreCarried(device, 5, found);
    ASSERT_TRUE(restored.ok()) << restored;
    EXPECT_THAT(found.values(0), Each(7.0F + static_cast<float>(device)));
  }
  EXPECT_EQ(Make()->RestoreCarried(2, 5, found).code(), absl::StatusCode::kNotFound) << "it was written by two";
}

TEST_F(RunSaverTest, DevicesOfAnotherWorkerHaveFilesByTheirRanks) {
  const std::vector<ParameterSpec> specs = {{"lstm/h", {3}}};
  const auto make = [&](int worker) {
    return RunSaver({.dir = dir_,
                     .specs = Specs(),
                     .slot_names = {"momentum"},
                     .place = {.examples = 100, .batch_size = 10, .workers = 4, .worker = 2 * worker},
                     .devices = 2,
                     .chief = worker == 0},
                    config_, sampler_, clock_, disk_);
  };
  ParameterSet carried(specs);
  ASSERT_TRUE(make(0).Save(StateView(StateAt(5, 1)), {.step = 5, .carried = {&carried, &carried}}).ok());
  RunSaver other = make(1);
  ParameterSet found(specs);
  for (const int device : {0, 1}) {
    EXPECT_FALSE(make(0).Load(RunSaver::Which::kNewestForAll)->state) << "worker 1 has not written device " << device;
    std::ranges::fill(carried.values(0), 2.0F + static_cast<float>(device));
    ASSERT_TRUE(other.SaveCarried(device, 5, carried).ok());
    ASSERT_TRUE(other.RestoreCarried(device, 5, found).ok());
    EXPECT_THAT(found.values(0), Each(2.0F + static_cast<float>(device)));
  }
  EXPECT_EQ(make(0).Load(RunSaver::Which::kNewestForAll)->state->step, 5);
  EXPECT_TRUE(WorkerStateStore(dir_, /*rank=*/3, 1).Has(5));
}

// A chief that is stopped alone writes a checkpoint of a step that no other worker has state of.
TEST_F(RunSaverTest, AJobBeginsWhereEveryWorkerHasItsState) {
  const std::vector<ParameterSpec> specs = {{"lstm/h", {3}}};
  const auto make = [&](int worker, int workers = 2) {
    return RunSaver({.dir = dir_,
                     .specs = Specs(),
                     .slot_names = {"momentum"},
                     .place = {.examples = 100, .batch_size = 10, .workers = workers, .worker = worker},
                     .chief = worker == 0},
                    config_, sampler_, clock_, disk_);
  };
  const auto begin = [&](int workers = 2, bool finished = false) {
    return make(0, workers).Load(RunSaver::Which::kNewestToBegin, [finished](int64_t step) { return finished && step == 7; });
  };
  const ParameterSet carried(specs);
  ASSERT_TRUE(make(0).Save(StateView(StateAt(5, 1)), {.step = 5, .carried = {&carried}}).ok());
  ASSERT_TRUE(make(0).Save(StateView(StateAt(7, 1)), {.step = 7, .carried = {&carried}}).ok());
  EXPECT_EQ(begin()->state->step, 7) << "no worker has state of any step, as without a shared folder";
  ASSERT_TRUE(make(1).SaveCarried(/*device=*/0, 5, carried).ok());
  EXPECT_EQ(begin()->state->step, 5);
  EXPECT_EQ(begin()->skipped.size(), 1U);
  EXPECT_EQ(begin(/*workers=*/3)->state->step, 7) << "nobody has state of three workers";
  EXPECT_EQ(begin(/*workers=*/2, /*finished=*/true)->state->step, 7) << "nothing is left to train";
  ASSERT_TRUE(make(1).SaveCarried(/*device=*/0, 7, carried).ok());
  EXPECT_EQ(begin()->state->step, 7);
}

TEST_F(RunSaverTest, ACheckpointIsDueBySteps) {
  EXPECT_FALSE(saver_->DueBySteps(10));  // 0: not by steps
  config_.checkpoint.every_steps = 5;
  EXPECT_TRUE(saver_->DueBySteps(10));
  EXPECT_FALSE(saver_->DueBySteps(11));
}

TEST_F(RunSaverTest, ACheckpointIsDueByTheTimeSinceTheLastOne) {
  EXPECT_FALSE(saver_->DueByTime());
  clock_.Advance(absl::Seconds(300));
  EXPECT_TRUE(saver_->DueByTime());
  ASSERT_TRUE(saver_->SaveMeanwhile(StateAt(5, 1), {.step = 5}).ok());
  ASSERT_TRUE(saver_->Settle().ok());
  EXPECT_FALSE(saver_->DueByTime());
  clock_.Advance(absl::Seconds(299));
  EXPECT_FALSE(saver_->DueByTime());
  clock_.Advance(absl::Seconds(1));
  EXPECT_TRUE(saver_->DueByTime());
  config_.checkpoint.every_seconds = 0;
  EXPECT_FALSE(saver_->DueByTime());
}

TEST_F(RunSaverTest, AJumpOfTheTimeOfDayMovesNoCheckpoint) {
  clock_.Advance(absl::Seconds(299));
  clock_.JumpWall(absl::Hours(1));
  EXPECT_FALSE(saver_->DueByTime());
  clock_.JumpWall(-absl::Hours(2));
  clock_.Advance(absl::Seconds(1));
  EXPECT_TRUE(saver_->DueByTime());
}

TEST_F(RunSaverTest, AFullDiskEndsNothingAndTheNextCheckpointTriesAgain) {
  FailWritesWith(absl::ResourceExhaustedError("disk full"));
  ASSERT_TRUE(saver_->SaveMeanwhile(StateAt(5, 1), {.step = 5}).ok());
  ASSERT_TRUE(saver_->Settle().ok());
  EXPECT_THAT(Finished(), IsEmpty());
  EXPECT_EQ(saver_->checkpointed_step(), -1);
  // The one at the end must succeed.
  const TrainingState last = StateAt(6, 2);
  EXPECT_TRUE(absl::IsResourceExhausted(saver_->Save(StateView(last), {.step = 6})));
  FailWritesWith(absl::OkStatus());
  EXPECT_TRUE(saver_->Save(StateView(last), {.step = 6}).ok());
  EXPECT_THAT(Finished(), ElementsAre(6));
}

TEST_F(RunSaverTest, WhatAFullDiskLeavesUnwrittenIsToldOnce) {
  FailWritesWith(absl::ResourceExhaustedError("disk full"));
  ASSERT_TRUE(saver_->SaveMeanwhile(StateAt(5, 1), {.step = 5}).ok());
  ASSERT_TRUE(saver_->Settle().ok());
  EXPECT_THAT(saver_->TakeUnwritten(), HasSubstr("the checkpoint of step 5 is not written: disk full. The training goes on"));
  EXPECT_EQ(saver_->TakeUnwritten(), "");
}

TEST_F(RunSaverTest, ABestCheckpointThatCouldNotBeWrittenIsKnownAtTheEnd) {
  FailWritesWith(absl::ResourceExhaustedError("disk full"));
  ASSERT_TRUE(saver_->SaveBestMeanwhile(StateAt(5, 1), {.step = 5}, {}).ok());
  ASSERT_TRUE(saver_->Settle().ok());
  EXPECT_TRUE(absl::IsResourceExhausted(saver_->best_status()));
  FailWritesWith(absl::OkStatus());
  ASSERT_TRUE(saver_->SaveBestMeanwhile(StateAt(6, 1), {.step = 6}, {}).ok());
  ASSERT_TRUE(saver_->Settle().ok());
  EXPECT_TRUE(saver_->best_status().ok());
}

TEST_F(RunSaverTest, AVolumeThatDoesNotAnswerEndsNothing) {
  FailWritesWith(FileError(ESTALE, "write", "step-5"));
  ASSERT_TRUE(saver_->SaveMeanwhile(StateAt(5, 1), {.step = 5}).ok());
  ASSERT_TRUE(saver_->Settle().ok());
  EXPECT_THAT(saver_->TakeUnwritten(), AllOf(HasSubstr("cannot write step-5: Stale file handle"), HasSubstr("mend the volume")));
  EXPECT_FALSE(saver_->Save(StateView(StateAt(6, 2)), {.step = 6}).ok());
}

TEST_F(RunSaverTest, AFolderThatIsRemovedWhileItIsWrittenIsMadeAnewByTheNextCheckpoint) {
  disk_.before = [this](int) {
    std::filesystem::remove_all(dir_);
    return absl::OkStatus();
  };
  ASSERT_TRUE(saver_->SaveMeanwhile(StateAt(5, 1), {.step = 5}).ok());
  ASSERT_TRUE(saver_->Settle().ok());
  EXPECT_THAT(saver_->TakeUnwritten(), HasSubstr("the checkpoint of step 5 is not written: cannot "));
  FailWritesWith(absl::OkStatus());
  ASSERT_TRUE(saver_->SaveMeanwhile(StateAt(6, 2), {.step = 6}).ok());
  ASSERT_TRUE(saver_->Settle().ok());
  EXPECT_THAT(Finished(), ElementsAre(6));
}

TEST_F(RunSaverTest, OtherErrorsOfTheDiskEndTheTraining) {
  FailWritesWith(absl::PermissionDeniedError("read-only"));
  ASSERT_TRUE(saver_->SaveMeanwhile(StateAt(5, 1), {.step = 5}).ok());
  const absl::Status settled = saver_->Settle();
  EXPECT_TRUE(absl::IsPermissionDenied(settled));
  EXPECT_THAT(std::string(settled.message()), HasSubstr("read-only"));
}

}  // namespace
}  // namespace trainyard::engine
