// The Deployment and the Service of spec.serve: they answer requests for predictions from a job's
// checkpoints (docs/contract.md, Serving).
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "operator/api/training_job.h"

namespace trainyard::control {

inline constexpr int kServePort = 8080;  // of REST

// The folder that is served: the job's output, or its folder of checkpoints where that is another.
std::string ServeFolder(const TrainingJob& job);
// "http://mnist-serve.default.svc:8080/v1/models/mnist"
std::string ServeUrl(const TrainingJob& job);

// Both are of a job with spec.serve. A suspended job that has not ended gets a Deployment of no
// pods.
nlohmann::json BuildServeDeployment(const TrainingJob& job);
nlohmann::json BuildServeService(const TrainingJob& job);

// A digest of the Deployment's spec: equal for equal ones.
std::string ServeHash(const TrainingJob& job);

}  // namespace trainyard::control
