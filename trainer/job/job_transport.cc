#include "trainer/job/job_transport.h"

#include <memory>
#include <utility>

#include "trainer/base/log.h"
#include "trainer/transport/authenticated_transport.h"
#include "trainer/transport/grpc_transport.h"
#include "trainer/transport/job_key_file.h"

namespace trainyard::engine {
namespace {

// Connections of peers that have not said hello yet: all trainers may start together, and dial again.
constexpr size_t kFewestUntrusted = 256;
constexpr size_t kUntrustedATrainer = 4;

}  // namespace

std::unique_ptr<Transport> MakeJobTransport(const ReplicaIdentity& identity, const TimeoutsConfig& timeouts) {
  GrpcTransportOptions options{.silence = timeouts.silence,
                               .greeting_deadline = timeouts.hello,
                               .most_untrusted = kFewestUntrusted + kUntrustedATrainer * static_cast<size_t>(identity.trainer_count())};
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

}  // namespace trainyard::engine
