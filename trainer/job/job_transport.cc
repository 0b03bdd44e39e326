#include "trainer/job/job_transport.h"

#include <memory>
#include <utility>

#include "trainer/base/log.h"
#include "trainer/transport/authenticated_transport.h"
#include "trainer/transport/grpc_transport.h"
#include "trainer/transport/job_key_file.h"
#include "trainer/transport/shared_memory_transport.h"

namespace trainyard::engine {
namespace {

// Connections of peers that have not said hello yet: all trainers may start together, and dial
// again.
constexpr size_t kFewestUntrusted = 256;
constexpr size_t kUntrustedATrainer = 4;
// Of these, those that have a stream, and so may hold a message's memory.
constexpr size_t kFewestUntrustedStreams = 32;
constexpr size_t kUntrustedStreamsATrainer = 2;

std::unique_ptr<Transport> MakeNetworkTransport(const ReplicaIdentity& identity, const TimeoutsConfig& timeouts) {
  const auto trainers = static_cast<size_t>(identity.trainer_count());
  GrpcTransportOptions options{.silence = timeouts.silence,
                               .greeting_deadline = timeouts.hello,
                               .most_untrusted = kFewestUntrusted + kUntrustedATrainer * trainers,
                               .most_untrusted_streams = kFewestUntrustedStreams + kUntrustedStreamsATrainer * trainers};
  if (identity.tls) options = WithTls(*identity.tls, std::move(options));
  std::unique_ptr<Transport> transport = MakeGrpcTransport(std::move(options));
  if (identity.key) {
    return MakeAuthenticatedTransport(std::move(transport),
                                      [file = std::make_shared<JobKeyFile>(*identity.key, identity.key_path)] { return file->Now(); });
  }
  if (!identity.on_one_machine()) {
    LogWarning("this job has no key: every process that reaches its ports can join; give all replicas one file with --key");
  }
  return transport;
}

}  // namespace

std::shared_ptr<LendableMemory> MakeJobMemory(const ReplicaIdentity& identity, const TrainingConfig& config) {
  if (!config.shared_memory || identity.ps_hosts.size() + identity.worker_hosts.size() < 2) return nullptr;
  absl::StatusOr<std::shared_ptr<LendableMemory>> memory = LendableMemory::Create();
  if (memory.ok()) return *std::move(memory);
  LogWarning("values for replicas of this machine are copied: {}", std::string(memory.status().message()));
  return nullptr;
}

std::unique_ptr<Transport> MakeJobTransport(const ReplicaIdentity& identity, const TrainingConfig& config,
                                            std::shared_ptr<LendableMemory> lendable) {
  std::unique_ptr<Transport> network = MakeNetworkTransport(identity, config.timeouts);
  if (!config.shared_memory) return network;
  return MakeSharedMemoryTransport(std::move(network), {.lendable = std::move(lendable)});
}

}  // namespace trainyard::engine
