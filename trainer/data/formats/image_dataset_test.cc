#include "trainer/data/formats/image_dataset.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <map>
#include <numeric>

#include "trainer/base/file.h"
#include "trainer/data/formats/image_folder.h"
#include "trainer/data/open/open_dataset.h"
#include "trainer/picture/png.h"
#include "trainer/picture/test_jpeg.h"

namespace trainyard::engine {
namespace {

namespace fs = std::filesystem;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Folders of grey pictures whose pixels all have one value.
class ImagesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    dir_ = ::testing::TempDir() + "images_test_" + ::testing::UnitTest::GetInstance()->current_test_info()->name();
    fs::remove_all(dir_);
    config_.format = DataConfig::Format::kImages;
    config_.dir = dir_;
    config_.pipeline.examples.clear();
  }

  std::string Png(uint8_t value, int height = 4, int width = 4) {
    return *EncodePng({.height = height, .width = width, .channels = 1, .pixels = std::vector<uint8_t>(size_t{1} * height * width, value)});
  }
  void Write(const std::string& name, const std::string& bytes) {
    fs::create_directories(fs::path(dir_ + "/" + name).parent_path());
    ASSERT_TRUE(WriteFileDurably(dir_ + "/" + name, bytes).ok());
  }
  // Two classes; the value of a picture tells its class and number.
  void WriteClasses(int each) {
    for (int i = 0; i < each; ++i) {
      Write("cat/" + std::to_string(i) + ".png", Png(static_cast<uint8_t>(i)));
      Write("dog/" + std::to_string(i) + ".png", Png(static_cast<uint8_t>(100 + i)));
    }
  }

  absl::StatusOr<std::unique_ptr<Dataset>> Open(Split split = Split::kTrain, int classes = 2) {
    return OpenDataset(config_, split, {.example_shape = shape_, .classes = classes}, 1);
  }
  std::string ErrorOf(Split split = Split::kTrain, int classes = 2) {
    const auto dataset = Open(split, classes);
    return dataset.ok() ? "" : std::string(dataset.status().message());
  }
  // value → label of all examples, whose pixels are checked to be equal.
  std::map<int, int> Examples(Split split = Split::kTrain) {
    const auto dataset = Open(split);
    EXPECT_TRUE(dataset.ok()) << dataset.status();
    std::map<int, int> examples;
    if (!dataset.ok()) return examples;
    std::vector<int64_t> all((*dataset)->info().examples);
    std::iota(all.begin(), all.end(), 0);
    Batch batch;
    const absl::Status read = (*dataset)->Read(all, batch);
    EXPECT_TRUE(read.ok()) << read;
    const size_t each = shape_.elements();
    for (size_t i = 0; i < all.size(); ++i) {
      const auto pixels = batch.x.values<const uint8_t>().subspan(i * each, each);
      EXPECT_THAT(pixels, Each(pixels[0]));
      examples[pixels[0]] = batch.y.values<const int32_t>()[i];
    }
    return examples;
  }

  std::string dir_;
  DataConfig config_;
  Shape shape_{4, 4, 1};
};

TEST_F(ImagesTest, EachFolderIsAClassInTheOrderOfTheNames) {
  WriteClasses(3);
  for (const bool cache : {false, true}) {
    config_.pipeline.examples.assign(cache ? 1 : 0, CacheConfig{});
    EXPECT_EQ(Examples(), (std::map<int, int>{{0, 0}, {1, 0}, {2, 0}, {100, 1}, {101, 1}, {102, 1}}));
  }
}

TEST_F(ImagesTest, ClassesOfTheJobGiveTheOrder) {
  WriteClasses(1);
  config_.classes = {"dog", "cat"};
  EXPECT_EQ(Examples(), (std::map<int, int>{{0, 1}, {100, 0}}));
}

TEST_F(ImagesTest, PicturesOfEverySizeAndKindGetTheModelsShape) {
  Write("cat/large.PNG", Png(7, 20, 10));
  Write("cat/deep/down/small.jpeg", TestJpeg{.height = 2, .width = 3, .channels = 1, .pixels = std::vector<uint8_t>(6, 40)}.Make());
  Write("dog/one.jpg", TestJpeg{.channels = 1, .pixels = std::vector<uint8_t>(64, 90)}.Make());
  EXPECT_EQ(Examples(), (std::map<int, int>{{7, 0}, {40, 0}, {90, 1}}));
  config_.images.fit = ImageFit::kStretch;
  shape_ = Shape{3, 5, 3};
  EXPECT_EQ(Examples(), (std::map<int, int>{{7, 0}, {40, 0}, {90, 1}}));
}

TEST_F(ImagesTest, TheTwoPartsOfASetShareNothingAndMissNothing) {
  WriteClasses(20);
  config_.eval_fraction = 0.25;
  config_.eval = config_.train;
  const std::map<int, int> train = Examples(Split::kTrain);
  const std::map<int, int> eval = Examples(Split::kEval);
  EXPECT_EQ(train.size(), 30);
  EXPECT_EQ(eval.size(), 10);
  for (const auto& [value, label] : eval) EXPECT_FALSE(train.contains(value)) << value;
  EXPECT_EQ(std::ranges::count_if(eval, [](const auto& example) { return example.second == 0; }), 5);
  config_.split_seed = 2;
  EXPECT_NE(Examples(Split::kEval), eval);
}

TEST_F(ImagesTest, ASetThatIsTooSmallToBeCutIsRefused) {
  WriteClasses(1);
  config_.eval_fraction = 0.2;
  config_.eval = config_.train;
  EXPECT_THAT(ErrorOf(Split::kEval), HasSubstr("evalFraction 0.2 of 2 pictures leaves none for the evaluation"));
}

TEST_F(ImagesTest, FoldersOfTwoSplitsHaveTheClassesOfTheTraining) {
  Write("train/cat/0.png", Png(1));
  Write("train/dog/0.png", Png(2));
  Write("val/dog/0.png", Png(3));
  config_.train.folder = "train";
  config_.eval = {.folder = "val"};
  EXPECT_EQ(Examples(Split::kEval), (std::map<int, int>{{3, 1}}));  // of a class less, the numbers stay
  Write("val/cow/0.png", Png(3));
  EXPECT_THAT(ErrorOf(Split::kEval), HasSubstr("val/cow is none of the 2 classes cat, dog"));
}

TEST_F(ImagesTest, SplitsAreNotTakenForClasses) {
  Write("train/cat/0.png", Png(1));
  Write("val/cat/0.png", Png(1));
  EXPECT_THAT(ErrorOf(), HasSubstr("has the folders train, val, which are no classes; name them as train: {folder: …}"));
}

TEST_F(ImagesTest, TheModelNeedsAsManyClassesAsThereAreFolders) {
  WriteClasses(1);
  EXPECT_THAT(ErrorOf(Split::kTrain, 10), HasSubstr("has 2 classes (cat, …), the model has 10; its last layer needs 2 units"));
  fs::remove_all(dir_ + "/cat");
  EXPECT_THAT(ErrorOf(), HasSubstr("has 1 folder, expected from 2"));
}

TEST_F(ImagesTest, AModelThatTakesNoPicturesIsRefused) {
  WriteClasses(1);
  shape_ = Shape{16};
  EXPECT_THAT(ErrorOf(), HasSubstr("the model takes [16], expected [height, width, 1] or [height, width, 3]"));
}

TEST_F(ImagesTest, StrayFilesAreLeftOutAndOtherPicturesRefused) {
  WriteClasses(1);
  Write("readme.txt", "x");
  Write("cat/notes.txt", "x");
  Write("cat/.DS_Store", "x");
  Write(".git/x.png", "x");
  EXPECT_EQ(Examples().size(), 2);
  Write("cat/photo.WebP", "x");
  EXPECT_THAT(ErrorOf(), HasSubstr("cat/photo.WebP is a .webp picture, expected .png or .jpg; convert it"));
}

TEST_F(ImagesTest, AClassWithoutPicturesIsNamed) {
  WriteClasses(1);
  fs::create_directories(dir_ + "/fox");
  EXPECT_THAT(ErrorOf(Split::kTrain, 3), HasSubstr("fox has no .png or .jpg pictures"));
}

TEST_F(ImagesTest, LinksAreFollowedButNotInCircles) {
  WriteClasses(1);
  Write("elsewhere/a.png", Png(9));
  fs::rename(dir_ + "/elsewhere", dir_ + "_elsewhere");
  fs::create_directory_symlink(fs::absolute(dir_ + "_elsewhere"), dir_ + "/cat/more");
  fs::create_symlink(fs::absolute(dir_ + "_elsewhere/a.png"), dir_ + "/dog/b.png");
  EXPECT_EQ(Examples().size(), 3);
  fs::create_directory_symlink("..", dir_ + "/cat/up");
  // Not "cat/up/cat": to remove that would remove the pictures.
  EXPECT_THAT(ErrorOf(), HasSubstr("/cat/up is a link to a folder that it lies in; remove it"));
  fs::remove(dir_ + "/cat/up");
  fs::create_symlink("nowhere", dir_ + "/cat/broken.png");
  EXPECT_THAT(ErrorOf(), HasSubstr("cat/broken.png is named as a picture, but it is no file, or a link that leads nowhere"));
  fs::remove_all(dir_ + "_elsewhere");
}

TEST_F(ImagesTest, ADamagedPictureIsNamedWhenItIsRead) {
  WriteClasses(8);
  const auto error = [&](const std::string& bytes) {
    Write("dog/3.png", bytes);
    const auto dataset = Open();
    EXPECT_TRUE(dataset.ok()) << dataset.status();
    std::vector<int64_t> all(16);
    std::iota(all.begin(), all.end(), 0);
    Batch batch;
    return std::string((*dataset)->Read(all, batch).message());
  };
  EXPECT_THAT(error(""), HasSubstr("dog/3.png: the file is empty, expected a PNG or JPEG picture"));
  EXPECT_THAT(error("GIF89a..."), HasSubstr("dog/3.png: the file begins with the bytes 47 49 46 38"));
  EXPECT_THAT(error(Png(1).substr(0, 50)), HasSubstr("dog/3.png: the PNG cannot be read"));
  // The bytes tell the kind, not the name.
  EXPECT_EQ(error(TestJpeg{.channels = 1, .pixels = std::vector<uint8_t>(64, 90)}.Make()), "");
}

TEST_F(ImagesTest, AFolderWhoseNameIsNoClassNameIsNamed) {
  WriteClasses(1);
  Write("caf\xe9/0.png", Png(1));
  EXPECT_THAT(std::string(ClassFoldersOf(dir_).status().message()),
              HasSubstr(R"(has the folder "caf\xe9", expected a class's name: UTF-8 of at most 256 bytes)"));
  fs::remove_all(dir_ + "/caf\xe9");
  Write("two\nlines/0.png", Png(1));
  EXPECT_THAT(std::string(ClassFoldersOf(dir_).status().message()), HasSubstr(R"(has the folder "two\nlines")"));
}

}  // namespace
}  // namespace trainyard::engine
