// Whether a job may go on from a checkpoint: the numbers of classes and the inputs of columns must
// mean what they meant when it was written.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "trainer/checkpoint/checkpoint.h"

namespace trainyard::engine {

// `description` is the job's model.json (model_description.h). FailedPrecondition names the first
// class or category that has another number than in the checkpoint. Columns of numbers that are
// scaled otherwise, as with more rows, are a warning in the log. What either description lacks is
// not compared, nor are names of classes whose numbers the files have.
absl::Status CheckSameMeaning(const Checkpoint& checkpoint, const std::string& description);

}  // namespace trainyard::engine
