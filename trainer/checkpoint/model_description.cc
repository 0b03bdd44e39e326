#include "trainer/checkpoint/model_description.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>
#include <variant>

#include "trainer/base/parse_json.h"
#include "trainer/base/status_macros.h"
#include "trainer/config/field_reader.h"
#include "trainer/config/job_config_text.h"
#include "trainer/data/class_name.h"
#include "trainer/data/open/class_names.h"
#include "trainer/data/open/csv_fit.h"
#include "trainer/job/csv_json.h"
#include "trainer/job/job_config.h"
#include "trainer/job/pipeline_json.h"
#include "trainer/model/build_graph.h"
#include "trainyard_version.h"

namespace trainyard::engine {
namespace {

using nlohmann::json;

constexpr std::string_view kModelFormat = "trainyard-model";
constexpr int kModelVersion = 1;
constexpr std::string_view kVocabularyFile = "vocabulary.json";

// As the job has it; null where a job was made without a file.
nlohmann::ordered_json JsonOf(const std::string& text) {
  nlohmann::ordered_json value = ParseOrderedJson(text);
  return value.is_discarded() ? nlohmann::ordered_json() : value;
}

json NumbersOf(const std::vector<double>& numbers) { return numbers.size() == 1 ? json(numbers[0]) : json(numbers); }

json JsonOf(const NormalizeConfig& normalize) {
  json fields = json::object();
  if (normalize.scale != 0) fields["scale"] = normalize.scale;
  if (!normalize.mean.empty()) fields["mean"] = NumbersOf(normalize.mean);
  if (!normalize.std.empty()) fields["std"] = NumbersOf(normalize.std);
  return fields;
}

json TransformsJson(const PipelineConfig& transforms) {
  json stages = json::array();
  for (const ExampleStage& stage : transforms.examples) {
    stages.push_back({{"map", {{"normalize", JsonOf(std::get<MapConfig>(stage).normalize)}}}});
  }
  return stages;
}

// Nothing of the order of examples, nor of what is random.
PipelineConfig NormalizationsOf(const PipelineConfig& pipeline) {
  PipelineConfig transforms;
  transforms.examples.clear();
  for (const ExampleStage& stage : pipeline.examples) {
    const auto* map = std::get_if<MapConfig>(&stage);
    if (map != nullptr && map->normalize.any()) transforms.examples.emplace_back(MapConfig{.augment = {}, .normalize = map->normalize});
  }
  return transforms;
}

// The number of class names that a model has; 0: an example has no class of its own.
absl::StatusOr<int> NamedClassesOf(const ModelSpec& model) {
  TY_ASSIGN_OR_RETURN(const Shape output, OutputShapeOf(model));
  if (output.rank() != 1) return 0;
  return ClassCountOf(model);
}

absl::StatusOr<json> OutputJson(const ModelSpec& model) {
  TY_ASSIGN_OR_RETURN(const Shape shape, OutputShapeOf(model));
  TY_ASSIGN_OR_RETURN(const int classes, ClassCountOf(model));
  if (classes == 0) return json{{"shape", shape.extents()}};
  json output = {{"classes", classes}};
  if (shape.rank() > 1) output["shape"] = shape.extents().first(shape.extents().size() - 1);
  return output;
}

std::string_view FitName(ImageFit fit) { return fit == ImageFit::kStretch ? "stretch" : "crop"; }

absl::Status NotADescription(const std::string& name, std::string_view why) {
  return absl::DataLossError(
      fmt::format("{} {}, expected a model's description of format {} version {}", name, why, kModelFormat, kModelVersion));
}

void ReadVocabulary(FieldReader& fields, ModelDescription& description) {
  const json* vocabulary = fields.Get("vocabulary");
  if (vocabulary != nullptr) description.vocabulary_sha256 = fields.Inside("vocabulary", *vocabulary).Text("sha256");
}

void ReadTransforms(FieldReader& fields, ModelDescription& description, FieldErrors& errors) {
  description.transforms.examples.clear();
  const json* transforms = fields.Get("transforms");
  if (transforms == nullptr || (transforms->is_array() && transforms->empty())) return;
  const size_t errors_before = errors.size();
  const PipelineConfig pipeline = ParsePipeline(*transforms, fields.PathOf("transforms"), description.training.data.format, errors);
  description.transforms = NormalizationsOf(pipeline);
  if (errors.size() == errors_before && description.transforms.examples.size() != transforms->size()) {
    fields.Error("transforms", "found other stages, expected those that normalize only");
  }
}

}  // namespace

absl::StatusOr<ModelDescription> DescribeModel(const TrainingConfig& config, std::string vocabulary_sha256) {
  ModelDescription description{.training = config,
                               .transforms = NormalizationsOf(config.data.pipeline),
                               .classes = {},
                               .vocabulary_sha256 = std::move(vocabulary_sha256),
                               .trainer = TRAINYARD_VERSION};
  TY_ASSIGN_OR_RETURN(const int classes, NamedClassesOf(config.model));
  if (classes > 0 && config.data.format != DataConfig::Format::kCsv) {
    TY_ASSIGN_OR_RETURN(description.classes, ClassNamesOf(config.data, classes));
  }
  if (config.data.format == DataConfig::Format::kCsv) {
    TY_ASSIGN_OR_RETURN(CsvFit fit, CsvFitOf(config.data, classes > 0));
    description.classes = std::move(fit.classes);
    description.training.data.fitted = std::move(fit.columns);
    description.training.data.label_scale = fit.label_scale;
    description.training.data.classes = description.classes;
  }
  return description;
}

absl::StatusOr<std::string> DescriptionJson(const ModelDescription& description) {
  const TrainingConfig& training = description.training;
  nlohmann::ordered_json text;
  text["format"] = kModelFormat;
  text["version"] = kModelVersion;
  text["trainer"] = description.trainer;
  text["training"] = {{"model", JsonOf(training.model_json)},
                      {"data", JsonOf(training.data_json)},
                      {"batchSize", training.batch_size},
                      {"seed", training.seed}};
  text["input"] = {{"shape", training.model.input_shape.extents()}};
  if (training.model.vocabulary > 0) text["input"]["vocabulary"] = training.model.vocabulary;
  TY_ASSIGN_OR_RETURN(text["output"], OutputJson(training.model));
  text["transforms"] = TransformsJson(description.transforms);
  if (!description.classes.empty()) text["classes"] = description.classes;
  if (training.data.fitted) text["columns"] = FittedColumnsJson(*training.data.fitted);
  if (training.data.label_scale) text["label"] = LabelScaleJson(*training.data.label_scale);
  if (training.data.format == DataConfig::Format::kImages) text["input"]["fit"] = FitName(training.data.images.fit);
  if (!description.vocabulary_sha256.empty()) {
    text["vocabulary"] = {{"file", kVocabularyFile}, {"sha256", description.vocabulary_sha256}};
  }
  return text.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

absl::StatusOr<ModelDescription> ParseDescription(std::string_view text, const std::string& name, std::span<const std::string> overrides) {
  const json value = ParseJson(text);
  if (!value.is_object()) return NotADescription(name, "is not a JSON object");
  FieldErrors errors;
  FieldReader fields(value, "", errors);
  const std::string format = fields.Text("format");
  const int64_t version = fields.Integer("version", {});
  if (!errors.empty() || format != kModelFormat || version != kModelVersion) {
    return NotADescription(name,
                           errors.empty() ? fmt::format("is of format '{:.64}' version {}", format, version) : "has no format or version");
  }
  const json* training = fields.Require("training", "an object with model and data");
  TY_RETURN_IF_ERROR(errors.ToStatus(name));
  json job = *training;
  if (job.is_object()) job["steps"] = 1;  // a training has a length
  ModelDescription description;
  // The name's end says that it is JSON.
  TY_ASSIGN_OR_RETURN(description.training, ParseTrainingText(job.dump(-1, ' ', false, json::error_handler_t::replace), name, overrides));
  description.trainer = fields.Text("trainer", "");
  description.classes = fields.TextList("classes");
  if (!std::ranges::all_of(description.classes, IsClassName)) {
    fields.Error("classes", "found a name that is empty, longer than 256 bytes or has control characters");
  }
  ReadVocabulary(fields, description);
  ReadTransforms(fields, description, errors);
  TY_ASSIGN_OR_RETURN(const int classes, NamedClassesOf(description.training.model));
  if (static_cast<int>(description.classes.size()) != classes) {
    fields.Error("classes", fmt::format("found {} names, expected {}", description.classes.size(), classes));
  }
  const DataConfig::Format data_format = description.training.data.format;
  if (data_format == DataConfig::Format::kCsv) {
    if (const json* columns = fields.Require("columns", "the columns of the training's rows")) {
      description.training.data.fitted = ParseFittedColumns(*columns, fields.PathOf("columns"), errors);
    }
    if (description.training.data.csv.standardize_label) {
      if (const json* label = fields.Require("label", "the mean and std of the training's label"))
        description.training.data.label_scale = ParseLabelScale(fields.Inside("label", *label));
    }
  }
  TY_RETURN_IF_ERROR(errors.ToStatus(name));
  // Other pictures and rows may have fewer classes, or others.
  if (data_format == DataConfig::Format::kImages || data_format == DataConfig::Format::kCsv)
    description.training.data.classes = description.classes;
  return description;
}

}  // namespace trainyard::engine
