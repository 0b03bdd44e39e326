#include "trainer/checkpoint/find_checkpoint.h"

#include <fmt/format.h>

#include <filesystem>
#include <string_view>
#include <utility>

#include "trainer/base/status_macros.h"
#include "trainer/job/job_config.h"
#include "trainer/job/output_folders.h"

namespace trainyard::engine {
namespace {

constexpr std::string_view kExpected = "expected a run's output folder, its folder of checkpoints, or one of them";

}  // namespace

CheckpointPlace FindCheckpoints(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code ignored;  // what does not exist is told by its reader
  if (fs::exists(fs::path(path) / "manifest.json", ignored)) {
    return {.one = true, .dir = (fs::path(path) / "..").lexically_normal().string()};
  }
  // A run's job may have named a folder of its own.
  if (const absl::StatusOr<TrainingConfig> config = ReadTrainingFile((fs::path(path) / "config" / "training.json").string()); config.ok()) {
    std::string named = CheckpointFolder(path, *config);
    if (fs::is_directory(named, ignored)) return {.one = false, .dir = std::move(named)};
  }
  const std::string below = (fs::path(path) / "checkpoints").string();
  return {.one = false, .dir = fs::is_directory(below, ignored) ? below : path};
}

std::string LastRunIn(const std::string& path) {
  namespace fs = std::filesystem;
  std::string last;
  std::error_code error;
  for (fs::directory_iterator entry(path, error), end; !error && entry != end; entry.increment(error)) {
    const std::string run = entry->path().string();
    std::error_code ignored;
    if (run <= last || !fs::is_directory(run, ignored)) continue;
    const CheckpointPlace place = FindCheckpoints(run);
    if (!place.one && place.dir != run) last = run;
  }
  return last;
}

absl::StatusOr<FoundCheckpoint> FindCheckpoint(const std::string& path, bool best) {
  if (std::error_code ignored; std::filesystem::is_regular_file(path, ignored)) {
    return absl::InvalidArgumentError(fmt::format("found the file {}, {}", path, kExpected));
  }
  const CheckpointPlace place = FindCheckpoints(path);
  if (place.one) {
    if (best) {
      return absl::InvalidArgumentError(
          fmt::format("{} is one checkpoint; --best takes a run's output folder or its folder of checkpoints", path));
    }
    TY_ASSIGN_OR_RETURN(Checkpoint checkpoint, Checkpoint::Read(path));
    return FoundCheckpoint{std::move(checkpoint), place.dir};
  }
  const CheckpointStore store(place.dir, 1);
  if (best) {
    absl::StatusOr<Checkpoint> checkpoint = Checkpoint::Read(store.BestPath());
    if (absl::IsNotFound(checkpoint.status())) {
      return absl::NotFoundError(fmt::format(
          "no best checkpoint in {}: a run keeps one where its job has checkpoint.keepBest or an evaluator; leave --best out", path));
    }
    TY_RETURN_IF_ERROR(checkpoint.status());
    return FoundCheckpoint{*std::move(checkpoint), place.dir};
  }
  TY_ASSIGN_OR_RETURN(NewestCheckpoint newest, store.NewestGood());
  if (!newest.checkpoint) {
    if (const std::string run = LastRunIn(path); !run.empty())
      return absl::NotFoundError(fmt::format("no checkpoint in {}, which is a folder of runs; name one, such as {}", path, run));
    if (std::error_code ignored; !std::filesystem::exists(path, ignored)) {
      return absl::NotFoundError(fmt::format("found no folder {}, {}", path, kExpected));
    }
    return absl::NotFoundError(fmt::format("no good checkpoint in {}: {}", path, kExpected));
  }
  return FoundCheckpoint{*std::move(newest.checkpoint), place.dir};
}

}  // namespace trainyard::engine
