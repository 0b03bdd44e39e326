// Checkpoints of tiny models, for tests.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "trainer/backend/reference/reference_backend.h"
#include "trainer/checkpoint/checkpoint.h"
#include "trainer/checkpoint/model_description.h"
#include "trainer/checkpoint/vocabulary_file.h"
#include "trainer/job/job_config.h"
#include "trainer/model/build_graph.h"
#include "trainer/serve/served_model.h"

namespace trainyard::engine {

inline constexpr char kSumOfThree[] =
    "{input: {shape: [3]}, layers: [{dense: {units: 1}}], loss: meanSquaredError}";  // weight * (a + b + c) + weight
inline constexpr char kTwoClasses[] = "{input: {shape: [3]}, layers: [{dense: {units: 2}}], loss: softmaxCrossEntropy}";
inline constexpr char kTinyPicture[] = "{input: {shape: [2, 2, 1]}, layers: [{flatten: {}}, {dense: {units: 1}}], loss: meanSquaredError}";
// Of the rows below: 1 + x, and 1 more for a day that they have.
inline constexpr char kTable[] = "{layers: [{dense: {units: 1}}], input: {shape: [3]}, loss: meanSquaredError}";
inline constexpr char kTableRows[] = "day,x,y\n20231104,-1,0\n20231105,1,0\n20231104,-1,1\n20231105,1,1\n";

// Of the characters "a", "b", "\n" and others.
inline constexpr char kText[] =
    "{input: {shape: [4], vocabulary: 4}, layers: [{embedding: {outputDim: 3}}, {lstm: {units: 5, returnSequences: true, stateful: true}}, "
    "{dense: {units: 4}}], loss: softmaxCrossEntropy}";
// The sum of two steps of one number, and of what came before.
inline constexpr char kRunningSum[] =
    "{input: {shape: [2, 1]}, layers: [{simpleRnn: {units: 1, activation: linear, stateful: true, useBias: false}}], loss: "
    "meanSquaredError}";

// A folder of the test's own.
inline std::string EmptyFolder() {
  const ::testing::TestInfo& test = *::testing::UnitTest::GetInstance()->current_test_info();
  std::string dir = ::testing::TempDir() + "serve_" + test.test_suite_name() + "_" + test.name();
  std::filesystem::remove_all(dir);
  std::filesystem::create_directories(dir);
  return dir;
}

inline Vocabulary TextVocabulary() {
  TokenStream stream(TokenKind::kCharacters);
  EXPECT_TRUE(stream.Append("aab\nab\na", "the text").ok());
  return {stream, 0, stream.numbers().size(), 4};
}

// <dir>/step-<step>, whose parameters are all `weight`; of kText they are start values. Its path.
inline std::string SaveModel(const std::string& dir, int64_t step, float weight, const std::string& model = kSumOfThree) {
  const bool text = model == kText;
  std::string data = "{format: synthetic, train: {examples: 8}}";
  if (text) data = "{format: text, tokens: characters, dir: d, train: {files: [t]}}";
  if (model == kTable) {
    std::ofstream(dir + "/rows.csv") << kTableRows;
    data = "{format: csv, dir: " + dir +
           ", train: {files: [rows.csv]}, label: y, columns: [{name: day, type: category, missing: '20231104'}, {name: x, missing: 0}]}";
  }
  const auto training = ParseTrainingText("model: " + model + "\ndata: " + data + "\nbatchSize: 4\nsteps: 5\n", "training.yaml");
  EXPECT_TRUE(training.ok()) << training.status();
  if (text) {
    EXPECT_TRUE(KeepVocabulary(dir, TextVocabulary(), /*has_checkpoints=*/false).ok());
  }
  const auto description = DescribeModel(*training, text ? TextVocabulary().Sha256Hex() : "");
  EXPECT_TRUE(description.ok()) << description.status();
  ParameterSet parameters(*ParameterSpecsOf(training->model));
  const std::vector<StartValue> starts = *StartValuesOf(training->model);
  for (int key = 0; key < parameters.size(); ++key) {
    std::ranges::fill(parameters.values(key), weight);
    const ParameterSpec& spec = parameters.spec(key);
    if (text) Initialize(starts[static_cast<size_t>(key)], /*seed=*/1, spec.name, spec.shape, parameters.values(key));
  }
  CheckpointShard shard{.name = "parameters", .tensors = {}};
  AppendTensors(parameters, "", shard.tensors);
  const CheckpointInfo info{.step = step,
                            .position = {},
                            .fingerprint = parameters.Fingerprint(),
                            .model = training->model.name,
                            .strategy = "local",
                            .state = {},
                            .description = *DescriptionJson(*description)};
  const auto path = CheckpointStore(dir, 10).Save(info, std::vector{std::move(shard)});
  EXPECT_TRUE(path.ok()) << path.status();
  return *path;
}

inline absl::StatusOr<std::shared_ptr<ServedModel>> LoadModel(const std::string& checkpoint, const BatcherOptions& options = {}) {
  return ServedModel::Load(
      {.path = checkpoint, .job = "", .overrides = {}}, options, [] { return MakeReferenceBackend(); }, [](const Batcher::BatchSeen&) {});
}

}  // namespace trainyard::engine
