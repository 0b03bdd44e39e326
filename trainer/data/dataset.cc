#include "trainer/data/dataset.h"

#include <filesystem>
#include <string_view>

#include "trainer/base/status_macros.h"
#include "trainer/data/augment.h"
#include "trainer/data/cifar10.h"
#include "trainer/data/idx_dataset.h"
#include "trainer/data/synthetic.h"

namespace trainyard::engine {
namespace {

absl::StatusOr<std::unique_ptr<Dataset>> Open(const DataConfig& config, const DataSplit& split, bool is_eval, const ExpectedData& expected,
                                              uint64_t seed) {
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
