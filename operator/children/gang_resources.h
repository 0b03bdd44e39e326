// What a job's replicas request of the cluster together. Pure.
#pragma once

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "absl/numeric/int128.h"
#include "operator/api/training_job.h"

namespace trainyard::control {

// By resource name ("cpu"), in thousandths of its unit.
using ResourceSum = std::map<std::string, absl::uint128>;

// The requests of the first `replicas` pods in the order in which they are made: servers, chief,
// workers, evaluator. A pod counts as the scheduler counts it: containers and sidecars together, or
// one init container where that is more, and the overhead of the template. A limit counts where
// there is no request. A quantity that cannot be read counts as nothing: the API server refuses
// that pod. Not known here: the defaults of a LimitRange.
ResourceSum RequestsOf(const TrainingJob& job, int replicas);

// {"cpu": "4", "memory": "8Gi"}: as objects of Kubernetes hold it.
nlohmann::json ToJson(const ResourceSum& sum);
// "4 CPU, 8Gi memory and 2 nvidia.com/gpu"; empty for nothing.
std::string Describe(const ResourceSum& sum);

}  // namespace trainyard::control
