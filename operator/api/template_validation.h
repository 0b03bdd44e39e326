// Checks of the parts of a pod template that the operator itself reads, overwrites or adds to. The API server checks the rest.
#pragma once

#include <vector>

#include "operator/api/training_job.h"

namespace trainyard::control {

// Appends an error for everything in the role's template that a pod made from it would lack, or that has a type to which nothing can be
// added. The role has a template.
void CheckTemplate(const TrainingJobSpec& spec, Role role, std::vector<FieldError>& errors);

}  // namespace trainyard::control
