// The transport of one replica: gRPC, behind the job's key where there is one. Between processes of
// one machine it goes through shared memory.
#pragma once

#include <memory>

#include "trainer/base/lendable_memory.h"
#include "trainer/job/replica_identity.h"
#include "trainer/job/training_config.h"
#include "trainer/transport/transport.h"

namespace trainyard::engine {

// Memory for values that peers of this machine may read where they lie. Null: the job's replicas
// share no memory, or there can be none, which costs copies and nothing else.
std::shared_ptr<LendableMemory> MakeJobMemory(const ReplicaIdentity& identity, const TrainingConfig& config);

// `lendable`: MakeJobMemory's, or null. Without a key on a job of several machines it warns that
// anybody who reaches the ports can join.
std::unique_ptr<Transport> MakeJobTransport(const ReplicaIdentity& identity, const TrainingConfig& config,
                                            std::shared_ptr<LendableMemory> lendable);

}  // namespace trainyard::engine
