// Services: they only give names to pods, so they are headless and publish addresses before pods
// are ready.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "operator/children/labels.h"

namespace trainyard::control {

// network.services PerReplica: named like the replica's pod, selecting it.
nlohmann::json BuildReplicaService(const TrainingJob& job, const ReplicaId& id);
// network.services Headless: named like the job, selecting all its pods; pods carry hostname and
// subdomain.
nlohmann::json BuildHeadlessService(const TrainingJob& job);

}  // namespace trainyard::control
