// The words with which a job is accepted: its condition Created and the events of its first status.
#pragma once

#include <string>
#include <vector>

#include "operator/plan/actions.h"

namespace trainyard::control {

// The message of the condition Created.
std::string DescribeChildren(const TrainingJob& job);

// Whether the job, whose status was `before`, is accepted by the status that is written now.
bool Accepts(const TrainingJobStatus& before, const TrainingJobStatus& written);

// "Created", and a warning for each part of the spec that works otherwise than it looks. A pod of
// each role with a template is built for it. So it is asked for when a status that accepts the job
// has been written, not at every look before. These events come before the plan's.
std::vector<PlannedEvent> AcceptanceEvents(const TrainingJob& job);

}  // namespace trainyard::control
