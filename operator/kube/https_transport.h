// HttpsTransport: the Transport over pooled keep-alive connections to one API server.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "operator/base/clock.h"
#include "operator/kube/config.h"
#include "operator/kube/transport.h"

namespace trainyard::control {

// Thread-safe; verifies the server's certificate and name unless the config says otherwise. Destroy
// after every request has returned. InvalidArgument when the config's server, certificates or keys
// make no sense. Makes the process ignore SIGPIPE.
absl::StatusOr<std::unique_ptr<Transport>> MakeHttpsTransport(const KubeConfig& config, Clock& clock);

}  // namespace trainyard::control
