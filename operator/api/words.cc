// The API's words for each enumeration, and back.
#include "operator/api/words.h"

#include "operator/api/training_job.h"

namespace trainyard::control {

std::string_view Name(Framework value) { return words::kFrameworks[static_cast<size_t>(value)]; }
std::string_view Name(Role value) { return words::kRoleNames[static_cast<size_t>(value)]; }
std::string_view Name(JobPhase value) { return words::kPhases[static_cast<size_t>(value)]; }

std::optional<Role> RoleFromName(std::string_view name) {
  for (const Role role : kRoles) {
    if (Name(role) == name) return role;
  }
  return std::nullopt;
}

}  // namespace trainyard::control
