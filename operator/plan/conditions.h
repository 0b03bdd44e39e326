// Conditions of a job: types, and setting them so that an unchanged one stays as it is, to the
// byte.
#pragma once

#include <string>
#include <string_view>

#include "operator/api/training_job.h"

namespace trainyard::control {

inline constexpr std::string_view kCreated = "Created";
inline constexpr std::string_view kRunning = "Running";
inline constexpr std::string_view kRestarting = "Restarting";
inline constexpr std::string_view kSuspended = "Suspended";
inline constexpr std::string_view kStalled = "Stalled";
inline constexpr std::string_view kSucceeded = "Succeeded";
inline constexpr std::string_view kFailed = "Failed";
inline constexpr std::string_view kInvalid = "Invalid";
inline constexpr std::string_view kServing = "Serving";

// Reasons that are looked for again.
inline constexpr std::string_view kCannotCreate = "CannotCreate";        // of Stalled
inline constexpr std::string_view kEditRefused = "EditRefused";          // of Invalid
inline constexpr std::string_view kRefusedByServer = "RefusedByServer";  // of Invalid

// lastTransitionTime changes only with the status. True when the status changed, or the condition
// is new and True.
bool SetCondition(TrainingJobStatus& status, std::string_view type, bool value, std::string_view reason, std::string message,
                  absl::Time now);

// Sets a condition to False if the job has it. A condition that was never True is not added.
bool ClearCondition(TrainingJobStatus& status, std::string_view type, std::string_view reason, std::string message, absl::Time now);

}  // namespace trainyard::control
