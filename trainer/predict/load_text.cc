#include "trainer/predict/load_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>
#include <utility>

#include "trainer/base/status_macros.h"
#include "trainer/checkpoint/carried_state.h"
#include "trainer/checkpoint/vocabulary_file.h"
#include "trainer/model/build_graph.h"
#include "trainer/model/one_step.h"

namespace trainyard::engine {

absl::StatusOr<Vocabulary> VocabularyOfTraining(const FoundCheckpoint& found, std::string_view sha256, const std::string& named,
                                                std::string_view hint) {
  std::string path = named;
  if (path.empty()) {
    const std::array dirs = {found.checkpoint.path(), found.dir};
    absl::StatusOr<std::string> in_dirs = FindVocabulary(dirs);
    if (!in_dirs.ok()) {
      return absl::NotFoundError(
          fmt::format("{}: copy the one of the run's folder of checkpoints there{}", std::string(in_dirs.status().message()), hint));
    }
    path = *std::move(in_dirs);
  }
  TY_ASSIGN_OR_RETURN(Vocabulary vocabulary, ReadVocabulary(path));
  if (vocabulary.Sha256Hex() == sha256) return vocabulary;
  return absl::FailedPreconditionError(fmt::format("checkpoint {} was not trained with the vocabulary in {}: copy the right one there{}",
                                                   found.checkpoint.path(), path, hint));
}

absl::Status LoadFirstRow(const Checkpoint& checkpoint, ParameterSet& state) {
  if (!checkpoint.info().state.contains(kStatePlace)) return absl::OkStatus();
  for (int i = 0; i < state.size(); ++i) {
    const ParameterSpec& spec = state.spec(i);
    const Tensor* const carried = checkpoint.Find(spec.name);
    if (carried == nullptr) continue;  // the layer always began with zeros
    if (carried->dtype != DType::kF32 || carried->shape.rank() != 2 || carried->shape[0] < 1 || carried->shape[1] != spec.shape[1]) {
      return absl::InvalidArgumentError(fmt::format("checkpoint {}: the state '{}' is {}, expected F32 [rows, {}]", checkpoint.path(),
                                                    spec.name, carried->shape.ToString(), spec.shape[1]));
    }
    std::ranges::copy(carried->values<const float>().first(state.values(i).size()), state.values(i).begin());
  }
  return absl::OkStatus();
}

absl::Status LoadText(TrainedModel& model) {
  if (model.description.vocabulary_sha256.empty()) return absl::OkStatus();
  TY_ASSIGN_OR_RETURN(const FoundCheckpoint found, FindCheckpoint(model.checkpoint));
  TY_ASSIGN_OR_RETURN(Vocabulary vocabulary, VocabularyOfTraining(found, model.description.vocabulary_sha256, "", ""));
  TY_ASSIGN_OR_RETURN(const int classes, ClassCountOf(model.description.training.model));
  if (vocabulary.size() > classes) {
    return absl::InvalidArgumentError(
        fmt::format("the vocabulary of {} has {} tokens, its model {} classes", model.checkpoint, vocabulary.size(), classes));
  }
  model.description.classes.clear();
  for (int32_t id = 0; id < classes; ++id) {
    model.description.classes.push_back(id < vocabulary.size() ? vocabulary.token(id) : "");
  }
  model.vocabulary = std::make_shared<const Vocabulary>(std::move(vocabulary));
  const absl::StatusOr<ModelSpec> one_step = OneStepOf(model.description.training.model);
  if (!one_step.ok()) {
    return absl::InvalidArgumentError(fmt::format("checkpoint {}: {}, so it cannot read a text token by token", model.checkpoint,
                                                  std::string(one_step.status().message())));
  }
  TY_ASSIGN_OR_RETURN(const Graph graph, BuildInferenceGraph(*one_step, /*batch=*/1));
  model.first_row = ParameterSet({graph.states().begin(), graph.states().end()});
  return LoadFirstRow(found.checkpoint, model.first_row);
}

}  // namespace trainyard::engine
