// The files of tests/golden/data, for tests: six examples of shape [2, 3]. Example i has the
// numbers 10 i … 10 i + 5 and the label i % 3.
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

struct ReadExamples {
  std::vector<float> x;  // as the model sees them
  std::vector<int32_t> labels;
};

// The examples `indices` of a data set with class numbers; empty when they cannot be read.
inline ReadExamples ExamplesOf(const Dataset& dataset, const std::vector<int64_t>& indices) {
  Batch batch;
  if (!dataset.Read(indices, batch).ok()) return {};
  ReadExamples examples;
  examples.x.resize(static_cast<size_t>(batch.x.shape.elements()));
  CopyExamplesAsF32(batch, examples.x);
  const auto labels = batch.y.values<const int32_t>();
  examples.labels.assign(labels.begin(), labels.end());
  return examples;
}

// The result of ExamplesOf() for golden examples, with their numbers divided by `divisor`.
inline ReadExamples GoldenExamples(const std::vector<int64_t>& indices, float divisor = 1.0F) {
  ReadExamples examples;
  for (const int64_t index : indices) {
    for (int64_t j = 0; j < 6; ++j) examples.x.push_back(static_cast<float>(10 * index + j) / divisor);
    examples.labels.push_back(static_cast<int32_t>(index % 3));
  }
  return examples;
}

// Expects that the data set was opened and gives `expected` for the examples `indices`.
inline void ExpectOpened(const absl::StatusOr<std::unique_ptr<Dataset>>& dataset, const std::vector<int64_t>& indices,
                         const ReadExamples& expected) {
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  const ReadExamples examples = ExamplesOf(**dataset, indices);
  EXPECT_THAT(examples.x, ::testing::Pointwise(::testing::FloatNear(1e-6F), expected.x));
  EXPECT_EQ(examples.labels, expected.labels);
}

// Expects that the data set was refused; returns why.
inline std::string RefusalOf(const absl::StatusOr<std::unique_ptr<Dataset>>& dataset) {
  EXPECT_FALSE(dataset.ok());
  return std::string(dataset.status().message());
}

}  // namespace trainyard::engine
