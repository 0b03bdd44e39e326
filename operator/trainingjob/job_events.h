// Events about a job, as people see them with kubectl describe.
#pragma once

#include "operator/api/training_job.h"
#include "operator/controller/event_recorder.h"
#include "operator/plan/plan.h"

namespace trainyard::control {

void RecordEvent(EventRecorder& events, const TrainingJob& job, const PlannedEvent& event);

}  // namespace trainyard::control
