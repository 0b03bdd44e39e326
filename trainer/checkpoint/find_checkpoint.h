// The checkpoint that a person means by a path.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "trainer/checkpoint/checkpoint.h"

namespace trainyard::engine {

struct FoundCheckpoint {
  Checkpoint checkpoint;
  std::string dir;  // of all checkpoints of the run
};

// Where the checkpoints are that a path means. Those of a run are where its config/training.json
// says (checkpoint.dir), else in checkpoints/.
struct CheckpointPlace {
  bool one = false;  // the path is a checkpoint itself
  std::string dir;   // of all checkpoints of the run
};
CheckpointPlace FindCheckpoints(const std::string& path);

// Of a folder of runs, such as `launch` makes: the run with checkpoints whose name is last. Empty:
// no run lies in `path`.
std::string LastRunIn(const std::string& path);

// `path` is a run's output folder, its folder of checkpoints, or one checkpoint. Finds the newest
// good checkpoint of several, or with `best` the best checkpoint. NotFound, DataLoss name what was
// looked for.
absl::StatusOr<FoundCheckpoint> FindCheckpoint(const std::string& path, bool best = false);

}  // namespace trainyard::engine
