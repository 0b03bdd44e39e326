#include "trainer/data/dataset.h"

#include <fmt/format.h>

#include <filesystem>
#include <string_view>

#include "trainer/base/status_macros.h"
#include "trainer/data/augment.h"
#include "trainer/data/cifar10.h"
#include "trainer/data/idx_dataset.h"
#include "trainer/data/synthetic.h"
#include "trainer/data/text_dataset.h"

namespace trainyard::engine {
namespace {

TextFiles TextFilesOf(const DataConfig& config, const DataSplit& split) {
  TextFiles files{
      .paths = {}, .begin = split.begin, .end = split.end, .fraction_begin = split.fraction_begin, .fraction_end = split.fraction_end};
  for (const std::string& file : split.files) files.paths.push_back((std::filesystem::path(config.dir) / file).string());
  return files;
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
                             .cache = config.cache},
                            expected);
    }
    case DataConfig::Format::kCifar10: {
      Cifar10Files files{.paths = {}, .begin = split.begin, .end = split.end};
      for (const std::string& file : split.files) files.paths.push_back((std::filesystem::path(config.dir) / file).string());
      return OpenCifar10Dataset(files, expected);
    }
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
  absl::StatusOr<std::unique_ptr<Dataset>> dataset = Open(config, chosen, is_eval, expected, seed);
  if (dataset.ok() && chosen.augment.any()) dataset = Augmented(*std::move(dataset), chosen.augment, seed);
  if (!dataset.ok()) return WithContext(dataset.status(), is_eval ? "spec.training.data.eval" : "spec.training.data.train");
  return dataset;
}

}  // namespace trainyard::engine
