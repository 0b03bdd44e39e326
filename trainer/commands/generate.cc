#include "trainer/commands/generate.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <utility>

#include "trainer/base/parse_json.h"
#include "trainer/base/status_macros.h"
#include "trainer/checkpoint/find_checkpoint.h"
#include "trainer/checkpoint/model_description.h"
#include "trainer/config/field_errors.h"
#include "trainer/model/build_graph.h"
#include "trainer/model/model_json.h"
#include "trainer/model/one_step.h"
#include "trainer/predict/load_text.h"
#include "trainer/train/model_runner.h"

namespace trainyard::engine {
namespace {

// Every text starts after the end of a line.
constexpr std::string_view kNewline = "\n";
constexpr float kNever = -std::numeric_limits<float>::infinity();  // the score of a token that is not drawn

absl::StatusOr<ModelSpec> SpecOf(const Checkpoint& checkpoint) {
  if (const std::string& description = checkpoint.info().description; !description.empty()) {
    TY_ASSIGN_OR_RETURN(ModelDescription described, ParseDescription(description, checkpoint.path() + "/model.json"));
    return std::move(described.training.model);
  }
  const auto& state = checkpoint.info().state;
  const auto found = state.find(kModelState);
  if (found == state.end()) {
    return absl::InvalidArgumentError(
        fmt::format("checkpoint {} does not hold its model; it was written by an older version", checkpoint.path()));
  }
  const nlohmann::json model = ParseJson(found->second);
  FieldErrors errors;
  ModelSpec spec = ParseModelSpec(model, "model", errors);
  TY_RETURN_IF_ERROR(errors.ToStatus(checkpoint.path()));
  return spec;
}

absl::Status NoTextModel(std::string_view what) {
  return absl::InvalidArgumentError(fmt::format(
      "{}: generate takes a model that reads tokens one after the other, such as preset ptbLstm, trained on data of format text", what));
}

}  // namespace

absl::StatusOr<std::unique_ptr<TextGenerator>> TextGenerator::Open(const std::string& path, const std::string& vocabulary_file,
                                                                   Backend& backend) {
  TY_ASSIGN_OR_RETURN(const FoundCheckpoint found, FindCheckpoint(path));
  TY_ASSIGN_OR_RETURN(const ModelSpec spec, SpecOf(found.checkpoint));
  const absl::StatusOr<ModelSpec> one_step = OneStepOf(spec);
  if (!one_step.ok()) return NoTextModel(std::string(one_step.status().message()));
  const auto& state = found.checkpoint.info().state;
  const auto sha256 = state.find(kVocabularyState);
  TY_ASSIGN_OR_RETURN(Vocabulary vocabulary, VocabularyOfTraining(found, sha256 == state.end() ? "" : sha256->second, vocabulary_file,
                                                                  ", or name it by --vocabulary"));
  std::unique_ptr<TextGenerator> generator(new TextGenerator(std::move(vocabulary), found.checkpoint.path()));
  TY_RETURN_IF_ERROR(generator->Load(found.checkpoint, *one_step, backend));
  return generator;
}

absl::Status TextGenerator::Load(const Checkpoint& checkpoint, const ModelSpec& spec, Backend& backend) {
  TY_ASSIGN_OR_RETURN(std::vector<ParameterSpec> specs, ParameterSpecsOf(spec));
  parameters_ = ParameterSet(std::move(specs));
  TY_RETURN_IF_ERROR(checkpoint.CopyTo(parameters_));
  TY_ASSIGN_OR_RETURN(Graph graph, BuildInferenceGraph(spec, /*batch=*/1));
  TY_ASSIGN_OR_RETURN(executor_, Executor::Create(std::move(graph), backend, {.inference = &parameters_}));
  reader_.emplace(spec, parameters_, backend);
  TY_ASSIGN_OR_RETURN(const int classes, ClassCountOf(spec));
  if (vocabulary_.size() > classes) {
    return absl::InvalidArgumentError(
        fmt::format("the vocabulary of {} has {} tokens, its model {} classes", checkpoint_, vocabulary_.size(), classes));
  }
  scores_.resize(static_cast<size_t>(classes));
  start_ = ZeroState(executor_->graph());
  return LoadFirstRow(checkpoint, start_);
}

absl::Status TextGenerator::Read(std::span<const int32_t> tokens) {
  while (!tokens.empty() && state_.size() > 0) {
    const int64_t length = ReadLengthFor(static_cast<int64_t>(tokens.size()));
    TY_RETURN_IF_ERROR(reader_->Read(/*rows=*/1, length, tokens.first(static_cast<size_t>(length)), state_));
    tokens = tokens.subspan(static_cast<size_t>(length));
  }
  return absl::OkStatus();
}

absl::Status TextGenerator::Advance(int32_t token) {
  const std::array feeds = {Feed{.name = kInputName, .tensor = {DType::kI32, Shape({1, 1}), &token}}};
  TY_RETURN_IF_ERROR(executor_->Run({.training = false}, feeds, parameters_, nullptr, nullptr, &state_));
  const Shape shape({1, 1, static_cast<int64_t>(scores_.size())});
  TY_RETURN_IF_ERROR(executor_->Fetch(kLogitsOutput, {DType::kF32, shape, scores_.data()}));
  if (std::ranges::all_of(scores_, [](float score) { return std::isfinite(score); })) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("the model of {} gives scores that are not finite: its training has diverged", checkpoint_));
}

absl::StatusOr<std::vector<int32_t>> TextGenerator::IdsOf(const std::string& prompt) const {
  std::vector<int32_t> ids;
  if (prompt.empty()) return ids;
  TokenStream stream(vocabulary_.kind());
  TY_RETURN_IF_ERROR(stream.Append(prompt, "the prompt"));
  for (const int32_t number : stream.numbers()) {
    const std::string& token = stream.tokens()[number];
    const std::optional<int32_t> id = vocabulary_.Find(token);
    if (!id) {
      return absl::InvalidArgumentError(fmt::format("the prompt's {} is not among the {} {} that the model knows", Quoted(token),
                                                    vocabulary_.size(), vocabulary_.kind() == TokenKind::kWords ? "words" : "characters"));
    }
    ids.push_back(*id);
  }
  return ids;
}

absl::StatusOr<std::string> TextGenerator::Generate(const GenerateOptions& options) {
  TY_ASSIGN_OR_RETURN(std::vector<int32_t> ids, IdsOf(options.prompt));
  state_ = ZeroState(executor_->graph());
  for (int i = 0; i < start_.size(); ++i) std::ranges::copy(start_.values(i), state_.values(i).begin());
  const std::string_view start = vocabulary_.kind() == TokenKind::kWords ? kEndOfLine : kNewline;
  std::vector<int32_t> read = {vocabulary_.Find(start).value_or(0)};
  read.insert(read.end(), ids.begin(), ids.end());
  TY_RETURN_IF_ERROR(Read(std::span(read).first(read.size() - 1)));
  TY_RETURN_IF_ERROR(Advance(read.back()));
  TokenSampler sampler(options.sampling, options.seed);
  for (int64_t i = 0; i < options.length; ++i) {
    // It stands for tokens that the model does not know: nothing that anyone would read.
    if (const auto unknown = vocabulary_.unknown(); unknown && vocabulary_.size() > 1) scores_[*unknown] = kNever;
    ids.push_back(sampler.Next(std::span(scores_).first(static_cast<size_t>(vocabulary_.size()))));
    TY_RETURN_IF_ERROR(Advance(ids.back()));
  }
  return vocabulary_.TextOf(ids);
}

}  // namespace trainyard::engine
