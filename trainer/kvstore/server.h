// A parameter server: holds its share of the parameters and runs the optimizer on what workers
// push.
#pragma once

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "trainer/kvstore/server_options.h"

namespace trainyard::engine {

class KvServerCore;
class Listener;
class Transport;

// Thread-safe. One step of one worker is applied at most once, whatever is repeated. Every header
// and length is checked before it is used; a peer that sends what does not fit is told why and its
// stream ended, the others go on.
class KvServer final {
 public:
  // Listens. Unavailable: the address cannot be listened at (port in use). InvalidArgument: options
  // that cannot be. The transport must outlive the server.
  static absl::StatusOr<std::unique_ptr<KvServer>> Create(KvServerOptions options, Transport& transport);
  ~KvServer();
  KvServer(const KvServer&) = delete;
  KvServer& operator=(const KvServer&) = delete;

  // host:port with the real port.
  std::string address() const;
  // Serves until every worker said Done (OK) or Stop() (Cancelled), however long no worker is
  // there: those who started it end it. Call it once.
  absl::Status Run();
  // Makes Run return. Safe from any thread, not from a signal handler.
  void Stop();
  KvServerStats stats() const;

 private:
  KvServer(std::shared_ptr<KvServerCore> core, std::unique_ptr<Listener> listener);

  const std::shared_ptr<KvServerCore> core_;
  const std::unique_ptr<Listener> listener_;
};

}  // namespace trainyard::engine
