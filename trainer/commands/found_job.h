// The job file that `init` writes.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "trainer/commands/found_data.h"

namespace trainyard::engine {

struct FoundJob {
  FoundData data;
  std::string text;  // of the job file
};

// The job for what FindData finds at `path`. Its splits were opened as `launch` opens them, so
// that it can be launched. Errors of FindData. InvalidArgument names `path` and says why the data
// cannot be trained on by such a job.
absl::StatusOr<FoundJob> FindJob(const std::string& path, const std::string& label = "");

}  // namespace trainyard::engine
