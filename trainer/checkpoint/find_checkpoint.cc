#include "trainer/checkpoint/find_checkpoint.h"

#include <fmt/format.h>

#include <filesystem>
#include <utility>

#include "trainer/base/status_macros.h"

namespace trainyard::engine {

absl::StatusOr<FoundCheckpoint> FindCheckpoint(const std::string& path, bool best) {
  namespace fs = std::filesystem;
  std::error_code ignored;  // what does not exist is told below
  if (fs::exists(fs::path(path) / "manifest.json", ignored)) {
    if (best) {
      return absl::InvalidArgumentError(
          fmt::format("{} is one checkpoint; --best takes a run's output folder or its folder of checkpoints", path));
    }
    TY_ASSIGN_OR_RETURN(Checkpoint checkpoint, Checkpoint::Read(path));
    return FoundCheckpoint{std::move(checkpoint), (fs::path(path) / "..").lexically_normal().string()};
  }
  const std::string below = (fs::path(path) / "checkpoints").string();
  const std::string dir = fs::is_directory(below, ignored) ? below : path;
  const CheckpointStore store(dir, 1);
  if (best) {
    absl::StatusOr<Checkpoint> checkpoint = Checkpoint::Read(store.BestPath());
    if (absl::IsNotFound(checkpoint.status())) {
      return absl::NotFoundError(fmt::format(
          "no best checkpoint in {}: a run keeps one where its job has checkpoint.keepBest or an evaluator; leave --best out", path));
    }
    TY_RETURN_IF_ERROR(checkpoint.status());
    return FoundCheckpoint{*std::move(checkpoint), dir};
  }
  TY_ASSIGN_OR_RETURN(NewestCheckpoint newest, store.NewestGood());
  if (!newest.checkpoint) {
    return absl::NotFoundError(
        fmt::format("no good checkpoint in {}: expected a run's output folder, its folder of checkpoints, or one of them", path));
  }
  return FoundCheckpoint{*std::move(newest.checkpoint), dir};
}

}  // namespace trainyard::engine
