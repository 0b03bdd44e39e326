#include "trainer/commands/store_job.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trainyard::engine {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;

TEST(StoreJobTest, TheLineHasTheNamesOfTheClasses) {
  DataConfig data{.format = DataConfig::Format::kIdx};
  EXPECT_EQ(StoreJobText("out", data, {"0", "1"}), "in a job file: data: {format: store, dir: \"out\", train: {}}\n");
  data.eval = DataSplit();
  EXPECT_EQ(StoreJobText("out", data, {"cat", "dog"}),
            "in a job file: data: {format: store, dir: \"out\", train: {}, eval: {}, classes: [\"cat\", \"dog\"]}\n");
}

TEST(StoreJobTest, WhatAStoreLacksIsTold) {
  EXPECT_THAT(StoreJobText("out", {.format = DataConfig::Format::kCsv}, {}), HasSubstr("\nnote: a store has no columns: "));
  EXPECT_THAT(StoreJobText("out", {.format = DataConfig::Format::kImages}, {"a"}), EndsWith("and others with --resize\n"));
}

}  // namespace
}  // namespace trainyard::engine
