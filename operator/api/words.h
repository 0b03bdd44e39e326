// The words of the API's enumerations, each list in the order of its enum in training_job.h.
#pragma once

#include <array>
#include <string_view>

namespace trainyard::control::words {

inline constexpr std::array<std::string_view, 8> kFrameworks = {"Trainyard", "TensorFlow", "PyTorch", "MXNet",
                                                                "MPI",       "JAX",        "XGBoost", "None"};
inline constexpr std::array<std::string_view, 4> kRoleNames = {"chief", "ps", "worker", "evaluator"};
inline constexpr std::array<std::string_view, 4> kRestartPolicies = {"Always", "OnFailure", "Never", "ExitCode"};
inline constexpr std::array<std::string_view, 2> kRestartScopes = {"Replica", "Job"};
inline constexpr std::array<std::string_view, 3> kCleanPodPolicies = {"None", "Running", "All"};
inline constexpr std::array<std::string_view, 2> kSuccessPolicies = {"Chief", "AllWorkers"};
inline constexpr std::array<std::string_view, 2> kStartPolicies = {"PSReady", "Any"};
inline constexpr std::array<std::string_view, 2> kLostNodePolicies = {"Wait", "ForceDelete"};
inline constexpr std::array<std::string_view, 2> kServicesModes = {"PerReplica", "Headless"};
inline constexpr std::array<std::string_view, 2> kHostLists = {"Dense", "Sparse"};
inline constexpr std::array<std::string_view, 4> kGangs = {"None", "Volcano", "Coscheduling", "Native"};
inline constexpr std::array<std::string_view, 2> kPlacements = {"Close", "Exclusive"};
inline constexpr std::array<std::string_view, 3> kExitActions = {"Restart", "Fail", "Ignore"};
inline constexpr std::array<std::string_view, 3> kFailureActions = {"FailJob", "Ignore", "Count"};
inline constexpr std::array<std::string_view, 2> kServeWhens = {"final", "best"};
inline constexpr std::array<std::string_view, 7> kPhases = {"Pending",   "Running", "Restarting", "Suspended",
                                                            "Succeeded", "Failed",  "Invalid"};
inline constexpr std::array<std::string_view, 9> kConditions = {"Created",   "Running", "Restarting", "Suspended", "Stalled",
                                                                "Succeeded", "Failed",  "Invalid",    "Serving"};

}  // namespace trainyard::control::words
