// The transport of one replica: gRPC, behind the job's key where there is one.
#pragma once

#include <memory>

#include "trainer/base/timeouts.h"
#include "trainer/job/replica_identity.h"
#include "trainer/transport/transport.h"

namespace trainyard::engine {

// Without a key on a job of several machines it warns that anybody who reaches the ports can join.
std::unique_ptr<Transport> MakeJobTransport(const ReplicaIdentity& identity, const TimeoutsConfig& timeouts);

}  // namespace trainyard::engine
