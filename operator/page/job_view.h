// A job as the page shows it: JSON of what the caches hold. Pure functions. Texts of jobs and pods
// are hostile: they are strings here, and the page sets them as text alone.
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "operator/api/core.h"
#include "operator/api/training_job.h"
#include "operator/page/loss_curve.h"

namespace trainyard::control {

using PodList = std::vector<std::shared_ptr<const Pod>>;

// One line of the list. Absent fields are not known. Times are RFC 3339; `curve` has at most 24
// pairs [step, loss].
//   {"uid", "namespace", "name", "phase", "message", "created", "started", "completed", "deleting",
//    "ready", "desired", "restarts", "stalled", "step", "totalSteps", "percent", "etaSeconds",
//    "examplesPerSecond", "loss", "updated", "stragglers": number, "curve"}
nlohmann::json SummaryOf(const TrainingJob& job, const LossCurve& curve);

// The whole job: "summary" as above, "status" as the API server has it, "framework", "image",
// "replicas" (ReplicaRows), "hosts" {role: [address]}, and "curve" with triples
// [step, loss, examples/s]. At most 1000 replicas are listed; "more" counts the others.
nlohmann::json DetailOf(const TrainingJob& job, const PodList& pods, const LossCurve& curve);

// One row a replica of the spec, and one for each pod that the spec no longer wants:
//   {"replica", "state", "pod", "node", "ip", "ready", "restarts", "since", "deleting",
//    "waiting": {reason, message}, "ended" and "endedBefore": {exitCode, signal, reason, message, at}}
// `state` is the pod's phase, "Completed" for a replica that has ended with success and has no pod
// any more, or "Absent".
nlohmann::json ReplicaRows(const TrainingJob& job, const PodList& pods);

}  // namespace trainyard::control
