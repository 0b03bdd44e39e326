#include "trainer/data/open/csv_fit.h"

#include <filesystem>

namespace trainyard::engine {

CsvFiles CsvFilesOf(const DataConfig& config, const DataSplit& split) {
  CsvFiles files{
      .paths = {}, .options = config.csv, .eval_fraction = config.eval_fraction, .seed = config.split_seed, .classes = config.classes};
  for (const std::string& file : split.files) files.paths.push_back((std::filesystem::path(config.dir) / file).string());
  return files;
}

absl::StatusOr<CsvFit> CsvFitOf(const DataConfig& config, bool has_classes) {
  if (config.fitted) return CsvFit{.columns = *config.fitted, .classes = config.classes};
  return FitCsv(CsvFilesOf(config, config.train), has_classes);
}

}  // namespace trainyard::engine
