#include "trainer/job/output_folders.h"

#include <filesystem>

namespace trainyard::engine {
namespace {

std::string Below(const std::string& output, const std::string& dir, const char* fallback) {
  return (std::filesystem::path(output) / (dir.empty() ? fallback : dir)).string();
}

}  // namespace

std::string CheckpointFolder(const std::string& output, const TrainingConfig& config) {
  return Below(output, config.checkpoint.dir, "checkpoints");
}

std::string SummaryFolder(const std::string& output, const TrainingConfig& config) {
  return Below(output, config.summary.dir, "summaries");
}

}  // namespace trainyard::engine
