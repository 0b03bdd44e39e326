#include "trainer/data/stages/pipeline.h"

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <utility>

#include "trainer/base/status_macros.h"
#include "trainer/data/stages/augment.h"
#include "trainer/data/stages/file_cache.h"
#include "trainer/data/stages/memory_cache.h"
#include "trainer/data/stages/normalize.h"

namespace trainyard::engine {
namespace {

// Notes the time that reading from `source` takes as that of `stage`.
class TimedStage final : public Dataset {
 public:
  TimedStage(std::string_view stage, std::unique_ptr<Dataset> source) : stage_(stage), source_(std::move(source)) {}
  const DatasetInfo& info() const override { return source_->info(); }
  absl::Status Read(std::span<const int64_t> indices, Batch& batch) const override {
    const absl::Time start = batch.stages.Now();
    TY_RETURN_IF_ERROR(source_->Read(indices, batch));
    batch.stages.Add(stage_, start);
    return absl::OkStatus();
  }

 private:
  const std::string_view stage_;
  const std::unique_ptr<Dataset> source_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Dataset>> WithStages(std::unique_ptr<Dataset> source, const PipelineConfig& config, bool training,
                                                    uint64_t seed) {
  std::unique_ptr<Dataset> dataset = std::make_unique<TimedStage>("read", std::move(source));
  int file_caches = 0;
  uint64_t augment_seed = seed;
  for (size_t i = config.reads_into_memory() ? 1 : 0; i < config.examples.size(); ++i) {
    if (std::holds_alternative<CacheConfig>(config.examples[i])) {
      const std::string& file = std::get<CacheConfig>(config.examples[i]).file;
      if (file.empty()) {
        TY_ASSIGN_OR_RETURN(dataset, CachedInMemory(std::move(dataset)));
      } else {
        const char* const split = training ? "train" : "eval";
        ++file_caches;
        const std::string dir = file_caches == 1 ? fmt::format("{}/{}", file, split) : fmt::format("{}/{}-{}", file, split, file_caches);
        TY_ASSIGN_OR_RETURN(dataset, CachedInFile(std::move(dataset), dir));
        dataset = std::make_unique<TimedStage>("cache", std::move(dataset));
      }
      continue;
    }
    const auto& map = std::get<MapConfig>(config.examples[i]);
    if (training && map.augment.any()) {
      TY_ASSIGN_OR_RETURN(dataset, Augmented(std::move(dataset), map.augment, augment_seed));
      augment_seed += 0x9e3779b97f4a7c15;  // a second augmentation draws other numbers
    }
    if (map.normalize.any()) {
      TY_ASSIGN_OR_RETURN(dataset, Normalized(std::move(dataset), map.normalize));
    }
  }
  return dataset;
}

}  // namespace trainyard::engine
