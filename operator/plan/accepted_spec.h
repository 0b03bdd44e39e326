// Which spec a job follows whose edit makes no sense. Pure.
#pragma once

#include <optional>

#include "operator/api/training_job.h"

namespace trainyard::control {

// Nothing: the job as it is, valid or not. Else a job that has started and whose spec has problems
// now, as it goes on: with the number of workers that status says was accepted last, its `problems`
// moved to `refused_edit`. Nothing else that shapes its children can have been edited, because the
// CRD's rules fix it while the job runs; runPolicy is followed as far as it could be read. A job of
// a framework or a network that this operator does not know is left as it is.
std::optional<TrainingJob> LastAccepted(const TrainingJob& job);

}  // namespace trainyard::control
