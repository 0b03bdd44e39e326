#include "trainer/checkpoint/checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "absl/base/config.h"
#include "trainer/base/faulty_disk.h"
#include "trainer/base/file.h"
#include "trainer/base/process_usage.h"
#include "trainer/base/test_process.h"

namespace trainyard::engine {
namespace {

namespace fs = std::filesystem;
using ::testing::AnyOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr uint64_t kFingerprint = 0x1234;

ParameterSet Model(float value) {
  ParameterSet set({{"dense/kernel", {2, 3}}, {"dense/bias", {3}}});
  for (int key = 0; key < set.size(); ++key) std::ranges::fill(set.values(key), value);
  return set;
}

class CheckpointTest : public ::testing::Test {
 protected:
  void SetUp() override {
    dir_ = ::testing::TempDir() + "checkpoint_test_" + ::testing::UnitTest::GetInstance()->current_test_info()->name();
    fs::remove_all(dir_);
  }

  absl::Status Save(int64_t step, float value, int keep = 3) {
    ParameterSet parameters = Model(value);
    ParameterSet momentum = Model(value / 2);
    CheckpointShard weights{.name = "parameters"};
    AppendTensors(parameters, "", weights.tensors);
    CheckpointShard slots{.name = "optimizer"};
    AppendTensors(momentum, "momentum", slots.tensors);
    const CheckpointInfo info{.step = step,
                              .position = {2, 64},
                              .seed = 7,
                              .fingerprint = kFingerprint,
                              .model = "lenet5",
                              .strategy = "local",
                              .state = {{"best", "0.5"}}};
    CheckpointStore store(dir_, keep);
    return store.Save(info, std::vector<CheckpointShard>{std::move(weights), std::move(slots)}).status();
  }
  NewestCheckpoint Load() {
    auto newest = CheckpointStore(dir_, 3).LoadNewest(kFingerprint, "lenet5");
    EXPECT_TRUE(newest.ok()) << newest.status();
    return *std::move(newest);
  }
  std::vector<int64_t> Steps() { return *CheckpointStore(dir_, 3).Steps(); }
  // Changes one byte in the middle of a file.
  void Damage(const std::string& file) {
    std::string bytes = *ReadFile(dir_ + "/" + file);
    bytes[bytes.size() / 2] ^= 1;
    ASSERT_TRUE(WriteFileDurably(dir_ + "/" + file, bytes).ok());
  }
  std::vector<std::string> Names() {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(dir_)) names.push_back(entry.path().filename().string());
    std::sort(names.begin(), names.end());
    return names;
  }

  std::string dir_;
};

TEST_F(CheckpointTest, WhatWasSavedIsLoaded) {
  ASSERT_TRUE(Save(200, 1.5F).ok());
  NewestCheckpoint newest = Load();
  ASSERT_TRUE(newest.checkpoint);
  const CheckpointInfo& info = newest.checkpoint->info();
  EXPECT_EQ(info.step, 200);
  EXPECT_EQ(info.position, (SamplerPosition{2, 64}));
  EXPECT_EQ(info.seed, 7);
  EXPECT_EQ(info.fingerprint, kFingerprint);
  EXPECT_EQ(info.model, "lenet5");
  EXPECT_EQ(info.strategy, "local");
  EXPECT_EQ(info.state.at("best"), "0.5");
  ParameterSet parameters = Model(0);
  ASSERT_TRUE(newest.checkpoint->CopyTo(parameters).ok());
  EXPECT_THAT(parameters.values(0), Each(1.5F));
  EXPECT_EQ(parameters.Sha256Hex(), Model(1.5F).Sha256Hex());
  ASSERT_TRUE(newest.checkpoint->CopyTo(parameters, "momentum").ok());
  EXPECT_THAT(parameters.values(1), Each(0.75F));
  EXPECT_NE(newest.checkpoint->Find("dense/kernel/momentum"), nullptr);
}

TEST_F(CheckpointTest, ItsDescriptionIsKeptWithItAndChecked) {
  CheckpointStore store(dir_, 3);
  ASSERT_TRUE(store.Save({.step = 5, .fingerprint = kFingerprint, .description = "{\"a\": 1}\n"}, {}).ok());
  EXPECT_EQ(*ReadFile(dir_ + "/step-5/model.json"), "{\"a\": 1}\n");
  const auto checkpoint = Checkpoint::Read(dir_ + "/step-5");
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  EXPECT_EQ(checkpoint->info().description, "{\"a\": 1}\n");
  ASSERT_TRUE(store.SaveBest(checkpoint->info(), checkpoint->Shards()).ok());
  EXPECT_EQ(*ReadFile(dir_ + "/best/model.json"), "{\"a\": 1}\n");
  Damage("step-5/model.json");
  EXPECT_THAT(std::string(Checkpoint::Read(dir_ + "/step-5").status().message()), HasSubstr("step-5/model.json has the SHA-256 "));
  fs::remove(dir_ + "/step-5/model.json");
  EXPECT_FALSE(Checkpoint::Read(dir_ + "/step-5").ok());
}

TEST_F(CheckpointTest, WithoutAFolderThereIsNothingToLoad) {
  NewestCheckpoint newest = Load();
  EXPECT_FALSE(newest.checkpoint);
  EXPECT_TRUE(newest.skipped.empty());
}

TEST_F(CheckpointTest, OnlyTheNewestAreKept) {
  for (int64_t step : {9, 10, 100, 101}) ASSERT_TRUE(Save(step, 1, 2).ok());
  EXPECT_THAT(Names(), ElementsAre("step-100", "step-101"));
}

TEST_F(CheckpointTest, TheNewestIsFoundByNumberNotByName) {
  for (int64_t step : {9, 10}) ASSERT_TRUE(Save(step, static_cast<float>(step)).ok());
  EXPECT_EQ(Load().checkpoint->info().step, 10);
}

TEST_F(CheckpointTest, ACorruptShardIsSkippedForTheOneBefore) {
  ASSERT_TRUE(Save(1, 1).ok());
  ASSERT_TRUE(Save(2, 2).ok());
  Damage("step-2/parameters.safetensors");
  NewestCheckpoint newest = Load();
  EXPECT_EQ(newest.checkpoint->info().step, 1);
  ASSERT_EQ(newest.skipped.size(), 1);
  EXPECT_EQ(newest.skipped[0].step, 2);
  EXPECT_EQ(newest.skipped[0].path, dir_ + "/step-2");
  EXPECT_THAT(newest.skipped[0].reason, HasSubstr("step-2/parameters.safetensors has the SHA-256 "));
}

TEST_F(CheckpointTest, EveryKindOfTornCheckpointIsSkipped) {
  ASSERT_TRUE(Save(1, 1).ok());
  for (int64_t step : {2, 3, 4, 5, 6}) ASSERT_TRUE(Save(step, 2, 10).ok());
  fs::remove(dir_ + "/step-6/manifest.json");
  fs::resize_file(dir_ + "/step-5/manifest.json", 20);
  fs::remove(dir_ + "/step-4/optimizer.safetensors");
  fs::resize_file(dir_ + "/step-3/parameters.safetensors", 100);
  ASSERT_TRUE(WriteFileDurably(dir_ + "/step-2/manifest.json", R"({"format": "trainyard-checkpoint", "version": 2})").ok());
  NewestCheckpoint newest = Load();
  EXPECT_EQ(newest.checkpoint->info().step, 1);
  ASSERT_EQ(newest.skipped.size(), 5);
  EXPECT_THAT(newest.skipped[0].reason, HasSubstr("step-6/manifest.json: No such file"));
  EXPECT_THAT(newest.skipped[1].reason, HasSubstr("step-5/manifest.json is not a JSON object"));
  EXPECT_THAT(newest.skipped[2].reason, HasSubstr("step-4/optimizer.safetensors: No such file"));
  EXPECT_THAT(newest.skipped[3].reason, HasSubstr("step-3/parameters.safetensors has 100 bytes, its manifest says"));
  EXPECT_THAT(newest.skipped[4].reason, HasSubstr("version 2, expected 'trainyard-checkpoint' version 1"));
}

TEST_F(CheckpointTest, AManifestThatPointsOutsideItsFolderIsRefused) {
  ASSERT_TRUE(Save(1, 1).ok());
  std::string manifest = *ReadFile(dir_ + "/step-1/manifest.json");
  manifest.replace(manifest.find("parameters.safetensors"), 22, "../../etc/passwd");
  ASSERT_TRUE(WriteFileDurably(dir_ + "/step-1/manifest.json", manifest).ok());
  EXPECT_THAT(Load().skipped.at(0).reason, HasSubstr("names a file '../../etc/passwd' outside its folder"));
}

TEST_F(CheckpointTest, AManifestWithANumberBeyondTheRangeIsRefused) {
  ASSERT_TRUE(Save(1, 1).ok());
  nlohmann::json manifest = nlohmann::json::parse(*ReadFile(dir_ + "/step-1/manifest.json"));
  manifest["offset"] = 1e300;
  ASSERT_TRUE(WriteFileDurably(dir_ + "/step-1/manifest.json", manifest.dump()).ok());
  EXPECT_THAT(Load().skipped.at(0).reason, HasSubstr("has no usable field 'offset'"));
}

TEST_F(CheckpointTest, ACheckpointOfAnotherModelIsRefusedByName) {
  ASSERT_TRUE(Save(1, 1).ok());
  auto newest = CheckpointStore(dir_, 3).LoadNewest(99, "linear");
  EXPECT_EQ(newest.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(newest.status().message()),
              HasSubstr("step-1 is of model 'lenet5' (fingerprint 0000000000001234), this job trains 'linear'"));
}

TEST_F(CheckpointTest, AMissingOrOtherTensorIsNamed) {
  ASSERT_TRUE(Save(1, 1).ok());
  NewestCheckpoint newest = Load();
  ParameterSet more({{"dense/kernel", {2, 3}}, {"dense2/bias", {3}}});
  EXPECT_THAT(std::string(newest.checkpoint->CopyTo(more).message()), HasSubstr("step-1 has no tensor 'dense2/bias'"));
  ParameterSet other({{"dense/kernel", {3, 2}}});
  EXPECT_THAT(std::string(newest.checkpoint->CopyTo(other).message()),
              HasSubstr("tensor 'dense/kernel' is F32 [2, 3], the model has F32 [3, 2]"));
}

TEST_F(CheckpointTest, TheSameStepAgainReplacesIt) {
  ASSERT_TRUE(Save(5, 1).ok());
  ASSERT_TRUE(Save(5, 2).ok());
  EXPECT_THAT(Names(), ElementsAre("step-5"));
  ParameterSet parameters = Model(0);
  ASSERT_TRUE(Load().checkpoint->CopyTo(parameters).ok());
  EXPECT_THAT(parameters.values(0), Each(2.0F));
}

TEST_F(CheckpointTest, LaterStepsOfAnAbandonedLineGoWhenANewOneIsDurable) {
  ASSERT_TRUE(Save(100, 1).ok());
  ASSERT_TRUE(Save(200, 2).ok());
  Damage("step-200/parameters.safetensors");
  ASSERT_TRUE(Save(150, 3).ok());
  EXPECT_THAT(Steps(), ElementsAre(150, 100));
}

TEST_F(CheckpointTest, LeftoversOfAKilledSaveAreNoCheckpointsAndGoAway) {
  fs::create_directories(dir_ + "/.step-3.new-0123456789abcdef");
  EXPECT_FALSE(Load().checkpoint);
  ASSERT_TRUE(Save(4, 1).ok());
  EXPECT_THAT(Names(), ElementsAre("step-4"));
}

TEST_F(CheckpointTest, AFullDiskIsANamedErrorAndDamagesNothing) {
  ASSERT_TRUE(Save(1, 1, 1).ok());
  const absl::Status status = [&] {
    const FileSizeLimit full(64);
    return Save(2, 2, 1);
  }();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("parameters.safetensors"));
  EXPECT_THAT(Names(), ElementsAre("step-1"));
  EXPECT_EQ(Load().checkpoint->info().step, 1);
}

TEST_F(CheckpointTest, AFolderThatCannotBeMadeIsNamed) {
  fs::create_directories(fs::path(dir_).parent_path());
  ASSERT_TRUE(WriteFileDurably(dir_, "a file").ok());
  EXPECT_THAT(std::string(Save(1, 1).message()), HasSubstr("cannot create folder " + dir_));
  fs::remove(dir_);
}

TEST_F(CheckpointTest, InitFromCopiesByName) {
  ASSERT_TRUE(Save(1, 4).ok());
  ParameterSet parameters = Model(0);
  ASSERT_TRUE(InitFrom(dir_ + "/step-1/parameters.safetensors", parameters).ok());
  EXPECT_THAT(parameters.values(1), Each(4.0F));
}

TEST_F(CheckpointTest, InitFromNamesAllThatDoesNotFitAtOnceAndChangesNothing) {
  ASSERT_TRUE(Save(1, 4).ok());
  ParameterSet other({{"dense/bias", {3}}, {"dense/kernel", {3, 2}}, {"out/bias", {1}}});
  const absl::Status status = InitFrom(dir_ + "/step-1/parameters.safetensors", other);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("does not fit the model: tensor 'dense/kernel' is F32 [2, 3], the model has F32 [3, 2]; "
                        "tensor 'out/bias' is missing"));
  ParameterSet renamed({{"dense/bias", {3}}, {"dense/weights", {2, 3}}});
  EXPECT_THAT(std::string(InitFrom(dir_ + "/step-1/parameters.safetensors", renamed).message()),
              HasSubstr("tensor 'dense/weights' is missing; the model has no 'dense/kernel'"));
  ParameterSet fewer({{"dense/bias", {3}}});
  EXPECT_TRUE(InitFrom(dir_ + "/step-1/parameters.safetensors", fewer).ok());
  EXPECT_THAT(other.values(0), Each(0.0F));
  EXPECT_THAT(std::string(InitFrom(dir_ + "/none", other).message()), HasSubstr("spec.training.initFrom: cannot open"));
}

TEST_F(CheckpointTest, TheBestOneStandsBesideTheNewestAndIsNotRotatedAway) {
  EXPECT_FALSE(*CheckpointStore(dir_, 3).LoadBest(kFingerprint, "lenet5"));
  ASSERT_TRUE(Save(10, 1).ok());
  const Checkpoint first = *Checkpoint::Read(dir_ + "/step-10");
  CheckpointStore store(dir_, 3);
  ASSERT_TRUE(store.SaveBest(first.info(), first.Shards()).ok());
  for (const int64_t step : {20, 30, 40, 50}) ASSERT_TRUE(Save(step, 2).ok());
  EXPECT_THAT(Steps(), ElementsAre(50, 40, 30));
  const absl::StatusOr<std::optional<Checkpoint>> best = store.LoadBest(kFingerprint, "lenet5");
  ASSERT_TRUE(best.ok()) << best.status();
  EXPECT_EQ((*best)->info().step, 10);
  EXPECT_EQ((*store.BestInfo())->step, 10);
  ParameterSet parameters = Model(0);
  ParameterSet momentum = Model(0);
  ASSERT_TRUE((*best)->CopyTo(parameters).ok());
  ASSERT_TRUE((*best)->CopyTo(momentum, "momentum").ok());
  EXPECT_THAT(parameters.values(0), Each(1.0F));
  EXPECT_THAT(momentum.values(0), Each(0.5F));
  EXPECT_EQ(Load().checkpoint->info().step, 50);  // training goes on from the newest, not from the best
}

TEST_F(CheckpointTest, ABetterOneReplacesTheBestAsAWhole) {
  CheckpointStore store(dir_, 3);
  for (const int64_t step : {10, 20}) {
    ASSERT_TRUE(Save(step, static_cast<float>(step)).ok());
    const Checkpoint saved = *Checkpoint::Read(store.PathOf(step));
    ASSERT_TRUE(store.SaveBest(saved.info(), saved.Shards()).ok());
  }
  EXPECT_EQ((*store.BestInfo())->step, 20);
  EXPECT_EQ(store.LoadBest(0, "other").status().code(), absl::StatusCode::kFailedPrecondition);
  Damage("best/parameters.safetensors");
  EXPECT_EQ(store.LoadBest(kFingerprint, "lenet5").status().code(), absl::StatusCode::kDataLoss);
}

TEST_F(CheckpointTest, AKillAtAnyStepOfAReplacementLosesNoBest) {
  constexpr int kKilled = 77;
  for (const int64_t step : {10, 20}) ASSERT_TRUE(Save(step, static_cast<float>(step)).ok());
  const Checkpoint first = *Checkpoint::Read(dir_ + "/step-10");
  const Checkpoint second = *Checkpoint::Read(dir_ + "/step-20");
  for (const bool can_exchange : {true, false}) {
    int kills = 0;
    for (int exit_code = kKilled; exit_code == kKilled; ++kills) {
      ASSERT_TRUE(CheckpointStore(dir_, 3).SaveBest(first.info(), first.Shards()).ok());
      exit_code = ExitCodeOf([&] {
        FaultyDisk disk;
        disk.can_exchange = can_exchange;
        disk.before = [&](int now) {
          if (now == kills) ::_exit(kKilled);
          return absl::OkStatus();
        };
        return CheckpointStore(dir_, 3, disk).SaveBest(second.info(), second.Shards()).ok() ? 0 : 1;
      });
      const auto best = CheckpointStore(dir_, 3).LoadBest(kFingerprint, "lenet5");
      ASSERT_TRUE(best.ok() && *best) << "killed before step " << kills << ": " << best.status();
      EXPECT_THAT((*best)->info().step, AnyOf(10, 20));
    }
    EXPECT_GT(kills, 8);
    EXPECT_EQ((*CheckpointStore(dir_, 3).BestInfo())->step, 20);
  }
  EXPECT_THAT(Names(), ElementsAre("best", "step-10", "step-20"));
}

// The writer sees the tensors' own bytes in pieces. The memory that it holds beside them has a
// bound that does not grow with the model.
TEST_F(CheckpointTest, ASaveHoldsNoSecondCopyOfTheTensors) {
  constexpr int64_t kElements = int64_t{8} << 20;
  ParameterSet big({{"dense/kernel", {kElements}}});
  CheckpointShard shard{.name = "parameters"};
  AppendTensors(big, "", shard.tensors);
  FaultyDisk disk;
  const auto resident = [] { return ReadProcessUsage().resident_bytes; };
  const int64_t before = resident();
  std::atomic<int64_t> most = 0;
  disk.on_append = [&](size_t) { most = std::max<int64_t>(most, resident() - before); };
  CheckpointStore store(dir_, 3, disk);
  ASSERT_TRUE(store.Save({.step = 1, .fingerprint = big.Fingerprint(), .model = "big"}, std::vector{shard}).ok());
  EXPECT_LE(disk.largest_append(), size_t{1} << 20);
#if !defined(ABSL_HAVE_THREAD_SANITIZER) && \
    !defined(ABSL_HAVE_ADDRESS_SANITIZER)  // which keep memory of their own about all that is touched
  EXPECT_LT(most, kElements * 4 / 10);
#endif
}

TEST_F(CheckpointTest, TwoCheckpointsOfOneStepHaveDigestsOfTheirOwn) {
  ASSERT_TRUE(Save(10, 1).ok());
  const std::string first = *CheckpointStore::DigestOf(dir_ + "/step-10");
  EXPECT_EQ(Checkpoint::Read(dir_ + "/step-10")->digest(), first);
  ASSERT_TRUE(Save(10, 2).ok());
  EXPECT_NE(*CheckpointStore::DigestOf(dir_ + "/step-10"), first);
}

}  // namespace
}  // namespace trainyard::engine
