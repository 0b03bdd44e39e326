// The chief's /progress answer (docs/contract.md): hostile text, of which only what makes sense is
// taken.
#pragma once

#include <optional>
#include <string_view>

#include "operator/api/training_job.h"

namespace trainyard::control {

inline constexpr size_t kMaxProgressBytes = 16 * 1024;

// Nothing when the text is no JSON object or has no step. updated_time is left unset.
std::optional<Progress> ParseProgress(std::string_view text);

// Whether the two tell the same, whenever they were told.
bool SameProgress(const Progress& a, const Progress& b);

}  // namespace trainyard::control
