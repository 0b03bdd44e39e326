#include "trainer/data/open/open_dataset.h"

#include <fmt/format.h>

#include <filesystem>
#include <string_view>

#include "trainer/base/memory_for.h"
#include "trainer/base/status_macros.h"
#include "trainer/data/csv/csv_dataset.h"
#include "trainer/data/formats/cifar10.h"
#include "trainer/data/formats/idx_dataset.h"
#include "trainer/data/formats/image_dataset.h"
#include "trainer/data/formats/numpy_dataset.h"
#include "trainer/data/formats/parquet_dataset.h"
#include "trainer/data/formats/synthetic.h"
#include "trainer/data/formats/tfrecord_dataset.h"
#include "trainer/data/open/class_names.h"
#include "trainer/data/open/csv_fit.h"
#include "trainer/data/stages/memory_cache.h"
#include "trainer/data/stages/pipeline.h"
#include "trainer/data/store/store_dataset.h"
#include "trainer/data/text/text_dataset.h"

namespace trainyard::engine {
namespace {

std::vector<std::string> PathsOf(const DataConfig& config, const DataSplit& split) {
  std::vector<std::string> paths;
  for (const std::string& file : split.files) paths.push_back((std::filesystem::path(config.dir) / file).string());
  return paths;
}

TextFiles TextFilesOf(const DataConfig& config, const DataSplit& split) {
  return {.paths = PathsOf(config, split),
          .begin = split.begin,
          .end = split.end,
          .fraction_begin = split.fraction_begin,
          .fraction_end = split.fraction_end};
}

// The vocabulary is the training split's, for both.
absl::StatusOr<std::unique_ptr<Dataset>> OpenText(const DataConfig& config, const DataSplit& split, bool is_eval,
                                                  const ExpectedData& expected) {
  const TextFiles training = TextFilesOf(config, config.train);
  const TextOptions options{.tokens = config.tokens, .vocabulary = config.vocabulary, .expected = expected};
  if (!is_eval) return OpenTrainingText(training, options);
  TY_ASSIGN_OR_RETURN(const std::shared_ptr<const Vocabulary> vocabulary, VocabularyOf(training, options));
  return OpenEvaluationText(TextFilesOf(config, split), vocabulary, expected);
}

// Which examples of its set a split has.
SetPart PartOf(const DataConfig& config, bool is_eval) {
  if (config.eval_fraction == 0) return SetPart::kAll;
  return is_eval ? SetPart::kEvaluation : SetPart::kTraining;
}

// The training's rows say how columns become numbers, for both splits.
absl::StatusOr<std::unique_ptr<Dataset>> OpenCsv(const DataConfig& config, const DataSplit& split, bool is_eval,
                                                 const ExpectedData& expected) {
  TY_ASSIGN_OR_RETURN(const CsvFit fit, CsvFitOf(config, expected.classes > 0));
  return OpenCsvDataset(CsvFilesOf(config, split), PartOf(config, is_eval), fit, expected);
}

// The training's folder says which classes there are, for both splits.
absl::StatusOr<std::unique_ptr<Dataset>> OpenImages(const DataConfig& config, const DataSplit& split, bool is_eval,
                                                    const ExpectedData& expected) {
  const SetPart part = PartOf(config, is_eval);
  TY_ASSIGN_OR_RETURN(std::vector<std::string> classes, ClassNamesOf(config, expected.classes));
  TY_ASSIGN_OR_RETURN(std::unique_ptr<Dataset> images, OpenImageDataset({.dir = ClassFoldersDirOf(config, split),
                                                                         .classes = std::move(classes),
                                                                         .every_class = !is_eval || part == SetPart::kEvaluation,
                                                                         .part = part,
                                                                         .eval_fraction = config.eval_fraction,
                                                                         .seed = config.split_seed,
                                                                         .fit = config.images.fit},
                                                                        expected));
  return config.pipeline.reads_into_memory() ? CachedInMemory(std::move(images)) : std::move(images);
}

// Class numbers of images: one for each example.
absl::Status CheckLabels(const DataConfig& config, const ExpectedData& expected) {
  if (config.format == DataConfig::Format::kText || (expected.vocabulary == 0 && expected.label_shape.rank() == 0)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("this format has numbers with one label for each example, the model takes {} and labels of {}; use format: text",
                  expected.vocabulary > 0 ? "tokens" : "numbers", expected.label_shape.ToString()));
}

absl::StatusOr<std::unique_ptr<Dataset>> Open(const DataConfig& config, const DataSplit& split, bool is_eval, const ExpectedData& expected,
                                              uint64_t seed) {
  TY_RETURN_IF_ERROR(CheckLabels(config, expected));
  switch (config.format) {
    case DataConfig::Format::kIdx: {
      const std::filesystem::path dir = config.dir;
      return OpenIdxDataset({.images = (dir / split.images).string(),
                             .labels = (dir / split.labels).string(),
                             .range = {split.begin, split.end},
                             .in_memory = config.pipeline.reads_into_memory()},
                            expected);
    }
    case DataConfig::Format::kCifar10:
      return OpenCifar10Dataset({.paths = PathsOf(config, split), .range = {split.begin, split.end}}, expected);
    case DataConfig::Format::kTfRecord:
      return OpenTfRecordDataset({.paths = PathsOf(config, split),
                                  .range = {split.begin, split.end},
                                  .features = config.features,
                                  .in_memory = config.pipeline.reads_into_memory()},
                                 expected);
    case DataConfig::Format::kNumpy: {
      const std::filesystem::path dir = split.archive.empty() ? config.dir : "";
      return OpenNumpyDataset({.archive = split.archive.empty() ? "" : (std::filesystem::path(config.dir) / split.archive).string(),
                               .images = (dir / split.images).string(),
                               .labels = (dir / split.labels).string(),
                               .range = {split.begin, split.end},
                               .in_memory = config.pipeline.reads_into_memory()},
                              expected);
    }
    case DataConfig::Format::kParquet:
      return OpenParquetDataset({.paths = PathsOf(config, split), .range = {split.begin, split.end}, .columns = config.features}, expected);
    case DataConfig::Format::kStore: {
      TY_ASSIGN_OR_RETURN(std::unique_ptr<Dataset> store,
                          OpenStore((std::filesystem::path(config.dir) / split.folder).string(), {split.begin, split.end}, expected));
      return config.pipeline.reads_into_memory() ? CachedInMemory(std::move(store)) : std::move(store);
    }
    case DataConfig::Format::kCsv:
      return OpenCsv(config, split, is_eval, expected);
    case DataConfig::Format::kImages:
      return OpenImages(config, split, is_eval, expected);
    case DataConfig::Format::kText:
      return OpenText(config, split, is_eval, expected);
    case DataConfig::Format::kSynthetic:
      return MakeSyntheticDataset(
          {.examples = split.examples, .expected = expected, .noise = config.noise, .seed = seed, .stream = is_eval ? uint64_t{1} : 0});
  }
  return absl::InvalidArgumentError("unknown data format");
}

}  // namespace

absl::StatusOr<std::unique_ptr<Dataset>> OpenDataset(const DataConfig& config, Split split, const ExpectedData& expected, uint64_t seed) {
  const bool is_eval = split == Split::kEval;
  if (is_eval && !config.eval) return absl::NotFoundError("spec.training.data.eval is not given: there is nothing to evaluate on");
  const DataSplit& chosen = is_eval ? *config.eval : config.train;
  auto dataset = WithMemoryFor("the data set", 0, [&]() -> absl::StatusOr<std::unique_ptr<Dataset>> {
    TY_ASSIGN_OR_RETURN(std::unique_ptr<Dataset> opened, Open(config, chosen, is_eval, expected, seed));
    return WithStages(std::move(opened), config.pipeline, /*training=*/!is_eval, seed);
  });
  if (!dataset.ok()) return WithContext(dataset.status(), is_eval ? "spec.training.data.eval" : "spec.training.data.train");
  return dataset;
}

}  // namespace trainyard::engine
