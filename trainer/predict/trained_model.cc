#include "trainer/predict/trained_model.h"

#include <fmt/format.h>

#include <utility>

#include "trainer/base/status_macros.h"
#include "trainer/checkpoint/find_checkpoint.h"
#include "trainer/job/job_config.h"
#include "trainer/model/build_graph.h"

namespace trainyard::engine {
namespace {

absl::StatusOr<ModelDescription> DescriptionOf(const Checkpoint& checkpoint, const TrainedModelOptions& options) {
  const CheckpointInfo& info = checkpoint.info();
  if (!options.job.empty()) {
    TY_ASSIGN_OR_RETURN(const TrainingConfig job, ReadTrainingFile(options.job, options.overrides));
    const auto vocabulary = info.state.find(kVocabularyState);
    return DescribeModel(job, vocabulary == info.state.end() ? "" : vocabulary->second);
  }
  if (info.description.empty()) {
    return absl::FailedPreconditionError(fmt::format(
        "checkpoint {} has no model.json: an older version wrote it; name the job file of its training by --job FILE", checkpoint.path()));
  }
  return ParseDescription(info.description, checkpoint.path() + "/model.json", options.overrides);
}

}  // namespace

absl::StatusOr<TrainedModel> LoadTrainedModel(const TrainedModelOptions& options) {
  TY_ASSIGN_OR_RETURN(const FoundCheckpoint found, FindCheckpoint(options.path, options.best));
  TrainedModel model{.checkpoint = found.checkpoint.path(), .step = found.checkpoint.info().step, .description = {}, .parameters = {}};
  TY_ASSIGN_OR_RETURN(model.description, DescriptionOf(found.checkpoint, options));
  const ModelSpec& spec = model.description.training.model;
  TY_ASSIGN_OR_RETURN(std::vector<ParameterSpec> specs, ParameterSpecsOf(spec));
  model.parameters = ParameterSet(std::move(specs));
  TY_RETURN_IF_ERROR(CheckModel(found.checkpoint, model.parameters.Fingerprint(), spec.name));
  TY_RETURN_IF_ERROR(found.checkpoint.CopyTo(model.parameters));
  return model;
}

}  // namespace trainyard::engine
