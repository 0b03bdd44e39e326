// The transport of one replica: gRPC, behind the job's key where there is one. Between processes of
// one machine it goes through shared memory.
#pragma once

#include <memory>

#include "trainer/job/replica_identity.h"
#include "trainer/job/training_config.h"
#include "trainer/transport/transport.h"

namespace trainyard::engine {

// Without a key on a job of several machines it warns that anybody who reaches the ports can join.
std::unique_ptr<Transport> MakeJobTransport(const ReplicaIdentity& identity, const TrainingConfig& config);

}  // namespace trainyard::engine
