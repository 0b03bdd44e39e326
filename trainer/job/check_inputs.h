// Checks of a job's files before anything is started: one look instead of an error from each
// replica.
#pragma once

#include "trainer/config/field_errors.h"
#include "trainer/job/training_config.h"

namespace trainyard::engine {

// Adds an error for each file that `training` reads and that cannot be opened. The files are those
// of data.train, data.eval and initFrom. Each error is at its field's path below "spec.training".
// Reads none of the files.
void CheckInputs(const TrainingConfig& training, FieldErrors& errors);

}  // namespace trainyard::engine
