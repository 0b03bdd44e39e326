// Checks of the parts of a pod template that the operator itself reads, overwrites or adds to. The
// API server checks the rest.
#pragma once

#include <vector>

#include "operator/api/training_job.h"

namespace trainyard::control {

// Appends an error for everything that a pod made from the role's template would lack. A field of a
// type to which nothing can be added is an error too. The role has a template.
void CheckTemplate(const TrainingJobSpec& spec, Role role, std::vector<FieldError>& errors);

}  // namespace trainyard::control
