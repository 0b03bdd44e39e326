#include "trainer/data/open/csv_fit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "trainer/base/file.h"
#include "trainer/data/open/class_names.h"
#include "trainer/data/open/open_dataset.h"

namespace trainyard::engine {
namespace {

using ::testing::ElementsAre;

TEST(KnowCsvFit, TheTrainingsFilesAreReadForItOnce) {
  DataConfig config;
  config.format = DataConfig::Format::kCsv;
  config.dir = ::testing::TempDir() + "csv_fit_test";
  std::filesystem::create_directories(config.dir);
  const std::string train = config.dir + "/train.csv";
  ASSERT_TRUE(WriteFileDurably(train, "x,y\n1,red\n3,blue\n").ok());
  ASSERT_TRUE(WriteFileDurably(config.dir + "/eval.csv", "x,y\n5,red\n").ok());
  config.train.files = {"train.csv"};
  config.eval = DataSplit{.files = {"eval.csv"}};
  config.csv.label.name = "y";
  config.csv.columns = {{.column = {.name = "x"}, .type = ColumnType::kNumber}};
  ASSERT_TRUE(KnowCsvFit(config, /*has_classes=*/true).ok());
  std::filesystem::remove(train);
  EXPECT_THAT(ClassNamesOf(config, 2).value(), ElementsAre("blue", "red"));
  const auto dataset = OpenDataset(config, Split::kEval, {.example_shape = {1}, .classes = 2}, 1);
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  Batch batch;
  ASSERT_TRUE((*dataset)->Read(std::vector<int64_t>{0}, batch).ok());
  EXPECT_THAT(batch.x.values<float>(), ElementsAre(3)) << "(5 - 2) / 1, by the training's mean and deviation";
  EXPECT_THAT(batch.y.values<int32_t>(), ElementsAre(1));
}

TEST(KnowCsvFit, AnotherFormatStaysAsItIs) {
  DataConfig config;
  const DataConfig before = config;
  EXPECT_TRUE(KnowCsvFit(config, true).ok());
  EXPECT_EQ(config, before);
}

}  // namespace
}  // namespace trainyard::engine
