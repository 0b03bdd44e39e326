#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "trainer/base/file.h"
#include "trainer/data/formats/numpy_dataset.h"
#include "trainer/data/golden_data.h"
#include "trainer/data/stages/file_cache.h"
#include "trainer/data/store/store_dataset.h"
#include "trainer/data/store/store_writer.h"

namespace trainyard::engine {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::FloatNear;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pointwise;

class StoreTest : public testing::Test {
 protected:
  StoreTest() {
    folder_ = ::testing::TempDir() + "store_" + ::testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::remove_all(folder_);
    dir_ = folder_ + "/made/train";
  }

  static std::unique_ptr<Dataset> Golden(const std::string& images = "x_uint8.npy") {
    return *OpenNumpyDataset({.images = GoldenPath(images), .labels = GoldenPath("y_int64.npy")}, GoldenExpected());
  }
  absl::Status Write(int64_t shards = 4) const {
    return WriteStore(*Golden(), {.dir = dir_, .shards = shards, .source = "golden", .progress = {}});
  }
  std::string OpenError(const ExpectedData& expected = GoldenExpected()) const {
    const auto store = OpenStore(dir_, {}, expected);
    EXPECT_FALSE(store.ok());
    return std::string(store.status().message());
  }
  std::string Shard(int number) const { return dir_ + "/shard-0000" + std::to_string(number) + ".bin"; }
  void Flip(const std::string& path, size_t place) const {
    std::string bytes = *ReadFile(path);
    bytes[place] = static_cast<char>(bytes[place] ^ 1);
    std::ofstream(path, std::ios::binary) << bytes;
  }
  void ReplaceInManifest(std::string_view from, std::string_view to) const {
    std::string text = *ReadFile(dir_ + "/manifest.json");
    const size_t place = text.find(from);
    ASSERT_NE(place, std::string::npos) << from;
    std::ofstream(dir_ + "/manifest.json") << text.replace(place, from.size(), to);
  }

  std::string folder_;
  std::string dir_;
};

TEST_F(StoreTest, GivesTheExamplesThatWereWrittenInAnyOrder) {
  for (const int64_t shards : {1, 4, 6}) {
    std::filesystem::remove_all(folder_);
    ASSERT_TRUE(Write(shards).ok());
    const auto store = OpenStore(dir_, {}, GoldenExpected());
    ASSERT_TRUE(store.ok()) << store.status();
    EXPECT_EQ((*store)->info().x_dtype, DType::kU8);
    EXPECT_EQ(static_cast<int64_t>((*store)->info().files.size()), shards);
    const std::vector<int64_t> indices{5, 0, 3, 1, 2, 4};
    EXPECT_THAT(ExamplesOf(**store, indices).x, Pointwise(FloatNear(1e-6F), GoldenExamples(indices, 255.0F).x));
    EXPECT_EQ(ExamplesOf(**store, indices).labels, GoldenExamples(indices).labels);
    EXPECT_TRUE(VerifyStore(dir_).ok());
  }
}

TEST_F(StoreTest, ARangeIsAPartOfItsShards) {
  ASSERT_TRUE(Write().ok());  // 1, 2, 1 and 2 examples
  const auto store = OpenStore(dir_, {.begin = 2, .end = 5}, GoldenExpected());
  ASSERT_TRUE(store.ok()) << store.status();
  EXPECT_THAT((*store)->info().files, ElementsAre(1, 1, 1));
  EXPECT_EQ(ExamplesOf(**store, {0, 2}).labels, GoldenExamples({2, 4}).labels);
}

TEST_F(StoreTest, KeepsTargetsAndFloats) {
  const ExpectedData expected{.example_shape = {6}, .classes = 0, .target_shape = {2}};
  const auto source = OpenNumpyDataset({.images = GoldenPath("x_float64.npy"), .labels = GoldenPath("targets.npy")}, expected);
  ASSERT_TRUE(source.ok()) << source.status();
  ASSERT_TRUE(WriteStore(**source, {.dir = dir_, .shards = 2, .source = "", .progress = {}}).ok());
  const auto store = OpenStore(dir_, {}, expected);
  ASSERT_TRUE(store.ok()) << store.status();
  Batch batch;
  ASSERT_TRUE((*store)->Read(std::vector<int64_t>{3}, batch).ok());
  EXPECT_THAT(batch.x.values<float>(), ElementsAre(30, 31, 32, 33, 34, 35));
  EXPECT_THAT(batch.y.values<float>(), ElementsAre(15.0F, 15.5F));
  EXPECT_THAT(OpenError({.example_shape = {6}, .classes = 3}), HasSubstr("has targets, the model's loss takes class numbers"));
}

TEST_F(StoreTest, IsWrittenAsAWholeOrNotAtAll) {
  ASSERT_TRUE(Write().ok());
  EXPECT_THAT(std::string(Write().message()), HasSubstr("is there already; remove it, or choose another folder"));
  EXPECT_THAT(std::string(WriteStore(*Golden(), {.dir = folder_ + "/b", .shards = 7, .source = "", .progress = {}}).message()),
              HasSubstr("found 7 shards, expected 1 to 6"));
  for (const auto& entry : std::filesystem::directory_iterator(folder_ + "/made")) EXPECT_EQ(entry.path().filename(), "train");
}

TEST_F(StoreTest, SaysHowFarItIs) {
  std::vector<int64_t> seen;
  ASSERT_TRUE(
      WriteStore(*Golden(), {.dir = dir_, .shards = 2, .source = "", .progress = [&](int64_t done) { seen.push_back(done); }}).ok());
  EXPECT_THAT(seen, ElementsAre(3, 6));
}

TEST_F(StoreTest, AShardThatIsMissingOrCutOffIsNamedAtTheStart) {
  ASSERT_TRUE(Write().ok());
  std::filesystem::resize_file(Shard(1), 5);
  EXPECT_THAT(OpenError(), AllOf(HasSubstr("shard-00001.bin has 5 bytes"), HasSubstr("it was cut off or written over")));
  std::filesystem::remove(Shard(1));
  EXPECT_THAT(OpenError(), AllOf(HasSubstr("a shard of the store"), HasSubstr("shard-00001.bin: No such file")));
  std::filesystem::remove_all(dir_);
  EXPECT_THAT(OpenError(), HasSubstr("is not a dataset store"));
}

TEST_F(StoreTest, ADamagedShardIsNamedAtItsFirstReadAndByVerify) {
  ASSERT_TRUE(Write().ok());
  Flip(Shard(2), 3);
  const auto store = OpenStore(dir_, {}, GoldenExpected());
  ASSERT_TRUE(store.ok()) << store.status();
  Batch batch;
  EXPECT_TRUE((*store)->Read(std::vector<int64_t>{0, 1, 2}, batch).ok()) << "other shards are good";
  for (int i = 0; i < 2; ++i) {
    EXPECT_THAT(std::string((*store)->Read(std::vector<int64_t>{3}, batch).message()),
                AllOf(HasSubstr("shard-00002.bin is damaged: its bytes have the checksum"), HasSubstr("its store's manifest says")));
  }
  EXPECT_THAT(std::string(VerifyStore(dir_).message()), HasSubstr("shard-00002.bin is damaged"));
}

TEST_F(StoreTest, AManifestThatDoesNotFitIsNamed) {
  ASSERT_TRUE(Write().ok());
  EXPECT_THAT(OpenError({.example_shape = {7}, .classes = 3}),
              HasSubstr("has examples of shape [2, 3] (6 numbers each), the model's input is [7]"));
  EXPECT_THAT(OpenError({.example_shape = {6}, .classes = 2}), HasSubstr("has labels from 0 to 2, the model has 2 classes (0 to 1)"));
  ReplaceInManifest("\"maximum\": 2", "\"maximum\": 1");
  EXPECT_THAT(std::string(VerifyStore(dir_).message()), HasSubstr("label 2 of record 1 is outside of the 0 to 1"));
  ReplaceInManifest("shard-00000.bin", "../../etc/x");
  EXPECT_THAT(OpenError(), HasSubstr("manifest.json: file: expected the name of a file in the store's folder"));
  ReplaceInManifest("\"version\": 1", "\"version\": 2");
  EXPECT_THAT(OpenError(), HasSubstr("version: found 2, expected 1"));
  ReplaceInManifest("trainyard-store", "else");
  EXPECT_THAT(OpenError(), HasSubstr("is not the manifest of a dataset store"));
}

TEST_F(StoreTest, ManifestsWithNumbersThatDoNotFitTogetherAreRefused) {
  ASSERT_TRUE(Write().ok());
  const std::string good = *ReadFile(dir_ + "/manifest.json");
  ASSERT_TRUE(ParseManifest(good, "m").ok());
  const auto error = [&](std::string_view from, std::string_view to) {
    std::string text = good;
    text.replace(text.find(from), from.size(), to);
    const auto manifest = ParseManifest(text, "m");
    EXPECT_FALSE(manifest.ok()) << to;
    return std::string(manifest.status().message());
  };
  EXPECT_THAT(error("\"examples\": 6", "\"examples\": 7"), HasSubstr("m: examples: expected the 6 examples of the shards together"));
  EXPECT_THAT(error("\"bytes\": 10", "\"bytes\": 11"), HasSubstr("m: bytes: expected 1 examples of 10 bytes each in shard-00000.bin"));
  EXPECT_THAT(error("\"U8\"", "\"F64\""), HasSubstr("m: dtype: expected U8 or F32"));
  EXPECT_THAT(error("\"scale\"", "\"skale\""), HasSubstr("m: scale: expected something"));
  EXPECT_THAT(error("\"examples\": 1", "\"examples\": 9223372036854775807"), HasSubstr("m: examples: expected a whole number from 0 to"));
}

// As two pods do, whose processes have the same id: the second one starts and ends while the first
// one writes.
TEST_F(StoreTest, TwoThatMakeOneStoreAtOnceBothEndWithIt) {
  absl::Status inner = absl::UnknownError("not tried");
  const absl::Status outer = WriteStore(*Golden(), {.dir = dir_, .shards = 1, .source = "golden", .progress = [&](int64_t) {
                                                      if (absl::IsUnknown(inner)) inner = Write(1);
                                                    }});
  EXPECT_TRUE(inner.ok()) << inner;
  EXPECT_TRUE(absl::IsAlreadyExists(outer)) << outer;
  EXPECT_TRUE(VerifyStore(dir_).ok());
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_ + "/made"), std::filesystem::directory_iterator()), 1);
}

TEST_F(StoreTest, AFileCacheIsMadeOnceAndReadAfterwards) {
  for (int run = 0; run < 2; ++run) {
    const auto cached = CachedInFile(Golden(), dir_);
    ASSERT_TRUE(cached.ok()) << cached.status();
    EXPECT_THAT(ExamplesOf(**cached, {4, 1}).x, Pointwise(FloatNear(1e-6F), GoldenExamples({4, 1}, 255.0F).x));
  }
  // That it is read and not made again shows when it is damaged.
  Flip(Shard(0), 0);
  EXPECT_THAT(ExamplesOf(**CachedInFile(Golden(), dir_), {0}).x, IsEmpty());
  EXPECT_THAT(std::string(CachedInFile(Golden("x_float32.npy"), dir_).status().message()),
              AllOf(HasSubstr("the data or the stages before the cache changed"), HasSubstr("remove the folder, or name another one")));
}

}  // namespace
}  // namespace trainyard::engine
