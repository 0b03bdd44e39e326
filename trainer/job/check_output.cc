#include "trainer/job/check_output.h"

#include <fmt/format.h>
#include <sys/statvfs.h>

#include <filesystem>
#include <memory>
#include <vector>

#include "trainer/base/bytes_text.h"
#include "trainer/base/status_macros.h"
#include "trainer/job/output_folders.h"
#include "trainer/model/build_graph.h"
#include "trainer/optim/make_optimizer.h"

namespace trainyard::engine {
namespace {

// `path`, or the nearest folder above it that is there.
std::filesystem::path WhatIsThere(const std::string& path) {
  std::error_code error;
  std::filesystem::path there = std::filesystem::absolute(path, error);
  while (!there.empty() && there != there.parent_path() && !std::filesystem::exists(there, error)) there = there.parent_path();
  return there;
}

}  // namespace

absl::StatusOr<int64_t> CheckpointBytes(const TrainingConfig& config) {
  TY_ASSIGN_OR_RETURN(const std::vector<ParameterSpec> specs, ParameterSpecsOf(config.model));
  TY_ASSIGN_OR_RETURN(const std::unique_ptr<Optimizer> optimizer, MakeOptimizer(config.optimizer));
  int64_t elements = 0;
  for (const ParameterSpec& spec : specs) elements += spec.shape.elements();
  return elements * static_cast<int64_t>(sizeof(float)) * static_cast<int64_t>(1 + optimizer->slot_names().size());
}

absl::Status CheckOutput(const std::string& output, const TrainingConfig& config) {
  const std::string folder = CheckpointFolder(output, config);
  for (const std::string& wanted : {output, folder}) {
    std::error_code error;
    const std::filesystem::path there = WhatIsThere(wanted);
    if (!std::filesystem::exists(there, error) || std::filesystem::is_directory(there, error)) continue;
    return absl::InvalidArgumentError(
        fmt::format("output folder '{}' cannot be made: {} is no folder; choose another --output", wanted, there.string()));
  }
  TY_ASSIGN_OR_RETURN(const int64_t needed, CheckpointBytes(config));
  const std::filesystem::path there = WhatIsThere(folder);
  struct statvfs disk{};
  if (statvfs(there.c_str(), &disk) != 0 || disk.f_blocks == 0) return absl::OkStatus();
  const double free = static_cast<double>(disk.f_bavail) * static_cast<double>(disk.f_frsize);
  if (free >= static_cast<double>(needed)) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      fmt::format("{}: its disk has {} free, a checkpoint of this model needs {}; make room, or choose another --output", folder,
                  BytesText(static_cast<int64_t>(free)), BytesText(needed)));
}

}  // namespace trainyard::engine
