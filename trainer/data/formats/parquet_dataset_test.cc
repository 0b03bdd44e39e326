#include "trainer/data/formats/parquet_dataset.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trainer/data/golden_data.h"

namespace trainyard::engine {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(ParquetDataset, ABuildWithoutArrowSaysHowToGetIt) {
  const auto dataset = OpenParquetDataset({.paths = {GoldenPath("binary.parquet")}, .module = "/nonexistent/module.so"}, GoldenExpected());
  EXPECT_TRUE(absl::IsUnimplemented(dataset.status()));
  EXPECT_THAT(std::string(dataset.status().message()), AllOf(HasSubstr("Parquet files are not read by this build"),
                                                             HasSubstr("scripts/venv.sh trainer/data/parquet/requirements.txt")));
}

}  // namespace
}  // namespace trainyard::engine
