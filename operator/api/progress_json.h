// The answers of a job's pods (docs/contract.md), the chief's /progress and the served version:
// hostile texts, of which only what makes sense is taken.
#pragma once

#include <optional>
#include <string_view>

#include "operator/api/training_job.h"

namespace trainyard::control {

inline constexpr size_t kMaxProgressBytes = 16 * 1024;

// Nothing when the text is no JSON object or has no step. updated_time is left unset.
std::optional<Progress> ParseProgress(std::string_view text);

// The version that `trainyard-trainer serve` answers with (docs/contract.md, Serving).
struct ServedVersion {
  int64_t version = 0;
  friend bool operator==(const ServedVersion&, const ServedVersion&) = default;
};

// Of the answer to GET /v1/models/NAME. Nothing where no version is AVAILABLE.
std::optional<ServedVersion> ParseServedVersion(std::string_view text);

// Whether the two tell the same, whenever they were told.
bool SameProgress(const Progress& a, const Progress& b);

}  // namespace trainyard::control
