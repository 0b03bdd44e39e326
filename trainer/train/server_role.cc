#include "trainer/train/server_role.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <filesystem>
#include <thread>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "trainer/base/process_memory.h"
#include "trainer/base/status_macros.h"
#include "trainer/kvstore/server.h"
#include "trainer/model/build_graph.h"
#include "trainer/train/progress_server.h"
#include "trainer/train/report.h"
#include "trainer/transport/grpc_transport.h"

namespace trainyard::engine {
namespace {

constexpr absl::Duration kStopGrace = absl::Seconds(6);
constexpr absl::Duration kPublishPeriod = absl::Milliseconds(500);

// ":5000" of "ps-0.example:5000": servers listen on all interfaces.
absl::StatusOr<std::string> ListenAddress(const ReplicaIdentity& identity) {
  if (identity.index >= static_cast<int>(identity.ps_hosts.size())) {
    return absl::InvalidArgumentError(
        fmt::format("ps-{} is not in the list of {} servers (ps_hosts)", identity.index, identity.ps_hosts.size()));
  }
  const std::string& host = identity.ps_hosts[identity.index];
  return "0.0.0.0" + host.substr(host.rfind(':'));
}

ReplicaReport ReportOf(const KvServerStats& stats, int index) {
  ReplicaReport report;
  report.role = "ps";
  report.index = index;
  report.server = ServerRecord{.index = index,
                               .bytes = stats.parameter_bytes,
                               .keys = stats.keys,
                               .bytes_sent = stats.bytes_sent,
                               .bytes_received = stats.bytes_received,
                               .cpu_seconds = ProcessCpuSeconds(),
                               .max_rss_bytes = MaxRssBytes()};
  return report;
}

}  // namespace

absl::Status RunServerRole(const ServerRoleOptions& options, StopRequest& stop) {
  const ReplicaIdentity& identity = options.identity;
  TY_ASSIGN_OR_RETURN(std::string address, ListenAddress(identity));
  TY_ASSIGN_OR_RETURN(std::vector<ParameterSpec> specs, ParameterSpecsOf(options.config.model));
  const bool async = options.config.strategy.mode == StrategyConfig::Mode::kAsync;
  const std::unique_ptr<Transport> transport = MakeGrpcTransport();
  TY_ASSIGN_OR_RETURN(const std::unique_ptr<KvServer> server, KvServer::Create({.address = std::move(address),
                                                                                .server = identity.index,
                                                                                .servers = static_cast<int>(identity.ps_hosts.size()),
                                                                                .workers = identity.trainer_count(),
                                                                                .mode = async ? KvMode::kAsync : KvMode::kSync,
                                                                                .optimizer = options.config.optimizer,
                                                                                .specs = std::move(specs)},
                                                                               *transport));
  TY_ASSIGN_OR_RETURN(const std::unique_ptr<ProgressServer> progress_server,
                      ProgressServer::Start({.port = options.http_port, .role = "ps", .index = identity.index}));
  spdlog::info("server {} of {} listens at {} for {} workers", identity.index, identity.ps_hosts.size(), server->address(),
               identity.trainer_count());

  absl::Notification ended;
  absl::Status served;
  std::thread serving([&] {
    served = server->Run();
    ended.Notify();
  });
  while (!stop.requested() && !ended.WaitForNotificationWithTimeout(kPublishPeriod)) {
    Progress progress;
    progress.step = server->stats().global_step;
    progress.updated_time = absl::Now();
    progress_server->Update(progress);
  }
  if (stop.requested() && !ended.WaitForNotificationWithTimeout(kStopGrace)) server->Stop();
  serving.join();

  std::error_code error;
  std::filesystem::create_directories(options.output + "/replicas", error);  // WriteReplicaReport tells what is wrong with it
  TY_RETURN_IF_ERROR(WriteReplicaReport(options.output, ReportOf(server->stats(), identity.index)));
  if (stop.requested() && served.ok()) return absl::CancelledError("stopped");
  return served;
}

}  // namespace trainyard::engine
