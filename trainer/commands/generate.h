// Text from a trained language model, token by token.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "trainer/backend/backend.h"
#include "trainer/backend/executor.h"
#include "trainer/checkpoint/checkpoint.h"
#include "trainer/commands/sample_token.h"
#include "trainer/data/text/vocabulary.h"
#include "trainer/model/model_spec.h"
#include "trainer/predict/token_reader.h"

namespace trainyard::engine {

struct GenerateOptions {
  std::string prompt;    // the model reads it as the beginning of a line
  int64_t length = 200;  // tokens after the prompt
  TokenSampling sampling;
  uint64_t seed = 1;
};

// Not thread-safe. The backend must outlive it.
class TextGenerator {
 public:
  // `path` is a run's output folder, its folder of checkpoints (then the newest good one is taken),
  // or one checkpoint. The model is the checkpoint's. The vocabulary is in `vocabulary_file` or,
  // where that is "", in the vocabulary.json in the checkpoint's folder or beside it.
  // InvalidArgument: the model does not read text token by token, since its input is not tokens, or
  // a layer does not read forward. NotFound: the vocabulary is missing.
  // FailedPrecondition: it is not the training's.
  static absl::StatusOr<std::unique_ptr<TextGenerator>> Open(const std::string& path, const std::string& vocabulary_file, Backend& backend);

  const std::string& checkpoint() const { return checkpoint_; }
  // The prompt and the model's continuation. The same options give the same text. InvalidArgument
  // names a part of the prompt that the vocabulary lacks.
  absl::StatusOr<std::string> Generate(const GenerateOptions& options);

 private:
  TextGenerator(Vocabulary vocabulary, std::string checkpoint) : vocabulary_(std::move(vocabulary)), checkpoint_(std::move(checkpoint)) {}

  absl::Status Load(const Checkpoint& checkpoint, const ModelSpec& spec, Backend& backend);
  absl::StatusOr<std::vector<int32_t>> IdsOf(const std::string& prompt) const;
  // Reads tokens; scores_ stay as they are.
  absl::Status Read(std::span<const int32_t> tokens);
  // Reads one token; scores_ are then those of the next.
  absl::Status Advance(int32_t token);

  const Vocabulary vocabulary_;
  const std::string checkpoint_;
  std::unique_ptr<Executor> executor_;  // of one row and one step
  ParameterSet parameters_;
  std::optional<TokenReader> reader_;
  ParameterSet start_;  // where every text begins: the state of the training's first row, which has read much text, or zeros
  ParameterSet state_;
  std::vector<float> scores_;  // by class; the vocabulary may be smaller
};

}  // namespace trainyard::engine
