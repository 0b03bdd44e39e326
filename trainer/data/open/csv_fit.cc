#include "trainer/data/open/csv_fit.h"

#include <filesystem>
#include <utility>

#include "trainer/base/memory_for.h"
#include "trainer/base/status_macros.h"

namespace trainyard::engine {

CsvFiles CsvFilesOf(const DataConfig& config, const DataSplit& split) {
  CsvFiles files{
      .paths = {}, .options = config.csv, .eval_fraction = config.eval_fraction, .seed = config.split_seed, .classes = config.classes};
  for (const std::string& file : split.files) files.paths.push_back((std::filesystem::path(config.dir) / file).string());
  return files;
}

absl::StatusOr<CsvFit> CsvFitOf(const DataConfig& config, bool has_classes) {
  if (config.fitted) return CsvFit{.columns = *config.fitted, .classes = config.classes, .label_scale = config.label_scale};
  return FitCsv(CsvFilesOf(config, config.train), has_classes);
}

absl::Status KnowCsvFit(DataConfig& config, bool has_classes) {
  if (config.format != DataConfig::Format::kCsv || config.fitted) return absl::OkStatus();
  TY_ASSIGN_OR_RETURN(CsvFit fit, WithMemoryFor("the data set", 0, [&] { return CsvFitOf(config, has_classes); }));
  config.fitted = std::move(fit.columns);
  config.classes = std::move(fit.classes);
  config.label_scale = fit.label_scale;
  return absl::OkStatus();
}

}  // namespace trainyard::engine
