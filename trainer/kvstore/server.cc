#include "trainer/kvstore/server.h"

#include <fmt/format.h>

#include <utility>

#include "trainer/base/status_macros.h"
#include "trainer/kvstore/server_core.h"
#include "trainer/optim/make_optimizer.h"

namespace trainyard::engine {

absl::StatusOr<std::unique_ptr<KvServer>> KvServer::Create(KvServerOptions options, Transport& transport) {
  if (options.servers < 1 || options.server < 0 || options.server >= options.servers || options.workers < 1) {
    return absl::InvalidArgumentError(
        fmt::format("server {} of {} with {} workers: expected at least one worker and an index below the number of servers",
                    options.server, options.servers, options.workers));
  }
  TY_ASSIGN_OR_RETURN(std::unique_ptr<Optimizer> optimizer, MakeOptimizer(options.optimizer));
  const std::string address = options.address;
  auto core = std::make_shared<KvServerCore>(std::move(options), std::move(optimizer));
  TY_ASSIGN_OR_RETURN(std::unique_ptr<Listener> listener, transport.Listen(address, core));
  return std::unique_ptr<KvServer>(new KvServer(std::move(core), std::move(listener)));
}

KvServer::KvServer(std::shared_ptr<KvServerCore> core, std::unique_ptr<Listener> listener)
    : core_(std::move(core)), listener_(std::move(listener)) {}

KvServer::~KvServer() = default;

std::string KvServer::address() const { return listener_->address(); }

absl::Status KvServer::Run() { return core_->Run(); }

void KvServer::Stop() { core_->Stop(); }

KvServerStats KvServer::stats() const { return core_->stats(); }

}  // namespace trainyard::engine
