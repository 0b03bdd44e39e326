// Pods that no node takes or may take, and pods whose device is unhealthy, in plain words. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "operator/plan/situation.h"

namespace trainyard::control {

// What the default scheduler says of a pod, said plainly:
//   "0/3 nodes are available: 1 node(s) had untolerated taint(s), 2 Insufficient nvidia.com/gpu. …"
//   "1 of 3 nodes has a taint that the pod does not tolerate, 2 lack nvidia.com/gpu"
// What it says of preemption is left out. Words of another form, such as those of other schedulers,
// stay as they are, on one line and without the last full stop.
std::string PlainSchedulerWords(std::string_view said);

// The resource of a vendor, such as "nvidia.com/gpu", that nodes lack for the pod; else empty.
std::string LackingDevice(std::string_view said);

// Whether the scheduler says of some node that it would have room if other pods ended. Else no node
// has as much in all, or another reason stands in the way.
bool WaitsForOtherPods(std::string_view said);

// "no node takes worker-1 (and 2 more): 2 of 3 nodes lack nvidia.com/gpu": of the first of these
// replicas that has such a pod. Empty where none has.
std::string DescribeNodeWait(const Observed& observed, const std::vector<ReplicaId>& replicas);

// "worker-1 (and 2 more) is held by scheduling gate example.com/quota, which another controller
// removes": of the first of these replicas that has such a pod. Empty where none has.
std::string DescribeGates(const Observed& observed, const std::vector<ReplicaId>& replicas);

// "worker-1 (and 2 more) is on node node-7, which is not Ready": of the first of these replicas
// that has such a pod. Empty where none has, and where the operator may not see nodes.
std::string DescribeLostNode(const Observed& observed, const std::vector<ReplicaId>& replicas);

// "worker-0 (and 2 more) runs on an unhealthy device: nvidia.com/gpu GPU-0". Empty where none does.
std::string DescribeUnhealthyDevices(const Observed& observed);

}  // namespace trainyard::control
