// The files of tests/golden/data, for tests: six examples of shape [2, 3]; example i has the numbers 10 i … 10 i + 5 and the label i % 3.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "trainer/data/dataset.h"

namespace trainyard::engine {

inline constexpr char kGoldenData[] = "tests/golden/data";

inline ExpectedData GoldenExpected() { return {.example_shape = {2, 3}, .classes = 3}; }

inline std::string GoldenPath(const std::string& name) { return std::string(kGoldenData) + "/" + name; }

struct ReadRows {
  std::vector<float> x;  // as the model sees them
  std::vector<int32_t> labels;
};

// The examples `indices` of a data set with class numbers; empty when they cannot be read.
inline ReadRows RowsOf(const Dataset& dataset, const std::vector<int64_t>& indices) {
  Batch batch;
  if (!dataset.Read(indices, batch).ok()) return {};
  ReadRows rows;
  rows.x.resize(static_cast<size_t>(batch.x.shape.elements()));
  CopyExamplesAsF32(batch, rows.x);
  const auto labels = batch.y.values<const int32_t>();
  rows.labels.assign(labels.begin(), labels.end());
  return rows;
}

// The result of RowsOf() for golden examples, with their numbers divided by `divisor`.
inline ReadRows GoldenRows(const std::vector<int64_t>& indices, float divisor = 1.0F) {
  ReadRows rows;
  for (const int64_t index : indices) {
    for (int64_t j = 0; j < 6; ++j) rows.x.push_back(static_cast<float>(10 * index + j) / divisor);
    rows.labels.push_back(static_cast<int32_t>(index % 3));
  }
  return rows;
}

// Expects that the data set was opened and gives `expected` for the examples `indices`.
inline void ExpectOpened(const absl::StatusOr<std::unique_ptr<Dataset>>& dataset, const std::vector<int64_t>& indices,
                         const ReadRows& expected) {
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  const ReadRows rows = RowsOf(**dataset, indices);
  EXPECT_THAT(rows.x, ::testing::Pointwise(::testing::FloatNear(1e-6F), expected.x));
  EXPECT_EQ(rows.labels, expected.labels);
}

// Expects that the data set was refused; returns why.
inline std::string RefusalOf(const absl::StatusOr<std::unique_ptr<Dataset>>& dataset) {
  EXPECT_FALSE(dataset.ok());
  return std::string(dataset.status().message());
}

}  // namespace trainyard::engine
