#include "trainer/predict/trained_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <span>
#include <string_view>
#include <system_error>
#include <utility>

#include "trainer/base/log.h"
#include "trainer/base/status_macros.h"
#include "trainer/checkpoint/find_checkpoint.h"
#include "trainer/job/job_config.h"
#include "trainer/model/build_graph.h"
#include "trainer/predict/evaluation_data.h"

namespace trainyard::engine {
namespace {

namespace fs = std::filesystem;

// The description with other overrides than those of the options.
absl::StatusOr<ModelDescription> DescriptionWith(std::span<const std::string> overrides, const Checkpoint& checkpoint,
                                                 const TrainedModelOptions& options) {
  const CheckpointInfo& info = checkpoint.info();
  if (!options.job.empty()) {
    TY_ASSIGN_OR_RETURN(const TrainingConfig job, ReadTrainingFile(options.job, overrides));
    const auto vocabulary = info.state.find(kVocabularyState);
    return DescribeModel(job, vocabulary == info.state.end() ? "" : vocabulary->second);
  }
  if (info.description.empty()) {
    return absl::FailedPreconditionError(fmt::format(
        "checkpoint {} has no model.json: an older version wrote it; name the job file of its training by --job FILE", checkpoint.path()));
  }
  return ParseDescription(info.description, checkpoint.path() + "/model.json", overrides);
}

// The folder of the data that the checkpoint's job, or that of the options, names.
absl::StatusOr<std::string> DataFolderOf(const Checkpoint& checkpoint, const TrainedModelOptions& options) {
  if (!options.job.empty()) {
    TY_ASSIGN_OR_RETURN(const TrainingConfig job, ReadTrainingFile(options.job, options.overrides));
    return job.data.dir;
  }
  TY_ASSIGN_OR_RETURN(const ModelDescription description, DescriptionWith(options.overrides, checkpoint, options));
  return description.training.data.dir;
}

bool IsOfEvaluation(const std::string& override) {
  const std::string_view path = override;
  return path.starts_with("training.data.eval") || path.starts_with("spec.training.data.eval");
}

absl::StatusOr<ModelDescription> DescriptionOf(const Checkpoint& checkpoint, const TrainedModelOptions& options) {
  if (options.data.empty()) return DescriptionWith(options.overrides, checkpoint, options);
  TY_ASSIGN_OR_RETURN(const std::string trained_on, DataFolderOf(checkpoint, options));
  std::error_code error;
  const fs::path path = options.data;
  if (!fs::exists(path, error)) return absl::NotFoundError(fmt::format("--data {}: found no folder or file of that name", options.data));
  const std::string file = fs::is_directory(path, error) ? "" : path.filename().string();
  const std::string dir = file.empty() ? options.data : path.has_parent_path() ? path.parent_path().string() : ".";
  std::vector<std::string> overrides = options.overrides;
  overrides.push_back("training.data.dir=" + nlohmann::json(dir).dump());  // JSON's strings are YAML's
  TY_ASSIGN_OR_RETURN(ModelDescription description, DescriptionWith(overrides, checkpoint, options));
  DataConfig& data = description.training.data;
  const bool is_own = IsSameFolder(dir, trained_on);
  const bool keep_part = std::ranges::any_of(options.overrides, IsOfEvaluation);
  if (!file.empty() && !(is_own && EvaluatesFile(data, file))) {
    absl::StatusOr<DataConfig> evaluated = EvaluatedFile(data, file, keep_part);
    if (!evaluated.ok()) return WithContext(evaluated.status(), fmt::format("--data {}", options.data));
    data = *std::move(evaluated);
    if (!keep_part) LogInfo("{} is not what the training evaluates: all of its examples are evaluated", options.data);
    return description;
  }
  if (is_own || keep_part) return description;
  DataConfig whole = EvaluatedWhole(data);
  if (whole == data) return description;
  LogInfo("{} is not {}, the folder of the training's data: all of its examples are evaluated, not a part of them", options.data,
          trained_on.empty() ? "the working directory" : trained_on);
  data = std::move(whole);
  return description;
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
