#include "trainer/train/server_role.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <thread>
#include <utility>

#include "trainer/base/clock.h"
#include "trainer/base/log.h"
#include "trainer/base/memory_for.h"
#include "trainer/base/notification.h"
#include "trainer/base/process_usage.h"
#include "trainer/base/status_macros.h"
#include "trainer/base/wait_notice.h"
#include "trainer/job/check_devices.h"
#include "trainer/job/job_transport.h"
#include "trainer/job/output_folders.h"
#include "trainer/kvstore/part_names.h"
#include "trainer/kvstore/placement.h"
#include "trainer/kvstore/server.h"
#include "trainer/model/build_graph.h"
#include "trainer/optim/make_optimizer.h"
#include "trainer/profile/replica_profile.h"
#include "trainer/report/progress_server.h"
#include "trainer/report/report.h"
#include "trainer/report/usage_series.h"
#include "trainer/report/usage_summary.h"
#include "trainer/train/wait_text.h"

namespace trainyard::engine {
namespace {

constexpr double kStopShare = 0.75;                  // of the time to stop, in which the chief may still read this server
constexpr absl::Duration kAlone = absl::Seconds(1);  // without a worker: one that is there dials a lost server sooner
constexpr absl::Duration kReaderLook = absl::Milliseconds(100);
constexpr absl::Duration kPublishPeriod = absl::Milliseconds(500);

// "0.0.0.0:5000" of "ps-0.example:5000".
absl::StatusOr<std::string> ListenAddress(const ReplicaIdentity& identity) {
  if (identity.index >= static_cast<int>(identity.ps_hosts.size())) {
    return absl::InvalidArgumentError(
        fmt::format("ps-{} is not in the list of {} servers (ps_hosts)", identity.index, identity.ps_hosts.size()));
  }
  const std::string& host = identity.ps_hosts[identity.index];
  return identity.listen_host() + host.substr(host.rfind(':'));
}

ReplicaReport ReportOf(const KvServerStats& stats, int index, UsageRecord usage) {
  ReplicaReport report;
  report.role = "ps";
  report.index = index;
  report.server = ServerRecord{.index = index,
                               .bytes = stats.parameter_bytes,
                               .keys = stats.keys,
                               .bytes_sent = stats.bytes_sent,
                               .bytes_received = stats.bytes_received,
                               .refused_streams = stats.refused_streams,
                               .usage = std::move(usage)};
  return report;
}

// CPU use and memory over time: for the report, and every so many global steps for TensorBoard.
class ServerUsage {
 public:
  static absl::StatusOr<ServerUsage> Create(const ServerRoleOptions& options) {
    ServerUsage usage(options.config.summary.every_steps);
    if (usage.summary_every_ == 0) return usage;
    const std::string dir = SummaryFolder(options.output, options.config);
    const std::string own = fmt::format("{}/ps-{}", dir, options.identity.index);
    TY_ASSIGN_OR_RETURN(usage.summaries_, SummaryWriter::CreateUnlessFull(own, RealClock()));
    return usage;
  }

  absl::Status OnTick(int64_t global_step) {
    const absl::Time now = RealClock().Now();
    const ProcessUsage usage = ReadProcessUsage();
    if (series_.Due(now)) series_.Add(now, usage);
    // A training that goes on is at its step once the chief has sent the state.
    if (!summaries_ || global_step == 0) return absl::OkStatus();
    const bool begins = global_step < last_step_;  // the first time, or a training that has gone back
    if (begins) {
      next_summary_ = global_step;
      TY_RETURN_IF_ERROR(summaries_->GoOnAfter(global_step - 1));
    }
    last_step_ = global_step;
    if (global_step < next_summary_) return absl::OkStatus();
    next_summary_ = global_step + summary_every_;
    return SummarizeUsage(global_step, now, usage, summary_cpu_, *summaries_);
  }
  UsageRecord Conclude() { return series_.Conclude(RealClock().Now(), ReadProcessUsage()); }

 private:
  explicit ServerUsage(int64_t summary_every)
      : summary_every_(summary_every),
        series_(RealClock().Now(), ReadProcessUsage()),
        summary_cpu_(RealClock().Now(), ReadProcessUsage()) {}

  int64_t summary_every_;  // 0: no summaries
  std::unique_ptr<SummaryWriter> summaries_;
  UsageSeries series_;
  CpuMeter summary_cpu_;
  int64_t last_step_ = std::numeric_limits<int64_t>::max();
  int64_t next_summary_ = 1;
};

// This server's work in the profiled steps. A server cannot know which push is the last of them:
// the spans so far are written whenever nothing was added for a while.
class ServerProfile {
 public:
  ServerProfile(const ServerRoleOptions& options, std::span<const ParameterSpec> specs)
      : output_(options.output),
        profile_{.role = "ps",
                 .index = options.identity.index,
                 .steps = options.config.profile.steps,
                 .tensors = PartNames(specs, static_cast<int>(options.identity.ps_hosts.size()))},
        log_(profile_.steps, RealClock()) {
    const auto workers = static_cast<size_t>(std::max(options.identity.trainer_count(), kAsyncWorkers));
    log_.Reserve(static_cast<size_t>(profile_.steps.size()) * profile_.tensors.size() * workers);
  }

  SpanLog& log() { return log_; }

  absl::Status WriteWhenQuiet() {
    const size_t size = log_.size();
    return std::exchange(seen_, size) == size ? Write() : absl::OkStatus();
  }
  absl::Status Write() {
    const size_t size = log_.size();
    if (size == written_) return absl::OkStatus();
    written_ = size;
    profile_.spans = log_.spans();
    profile_.dropped = log_.dropped();
    return WriteReplicaProfile(output_, profile_);
  }

 private:
  static constexpr int kAsyncWorkers = 16;  // room for workers that are added while the job runs

  const std::string output_;
  ReplicaProfile profile_;
  SpanLog log_;
  size_t seen_ = 0;
  size_t written_ = 0;
};

// This server is to stop: returns once it has `ended`, no worker reads it any more, or its time is
// over.
void AwaitReaders(const KvServer& server, absl::Duration time, Notification& ended) {
  absl::Time now = RealClock().Now();
  absl::Time read_at = now;
  for (const absl::Time until = now + time; now < until && now < read_at + kAlone; now = RealClock().Now()) {
    if (ended.WaitForNotificationWithTimeout(kReaderLook)) return;
    const KvServerStats stats = server.stats();
    if (std::ranges::any_of(stats.workers, &KvWorkerStats::connected)) read_at = now;
  }
}

// Of the values and the optimizer slots that this server holds.
absl::StatusOr<int64_t> BytesOfServer(std::span<const ParameterSpec> specs, const OptimizerConfig& config,
                                      const ReplicaIdentity& identity) {
  TY_ASSIGN_OR_RETURN(const std::unique_ptr<Optimizer> optimizer, MakeOptimizer(config));
  const Placement placement = PlaceParameters(specs, static_cast<int>(identity.ps_hosts.size()));
  return placement.bytes[static_cast<size_t>(identity.index)] * static_cast<int64_t>(1 + optimizer->slot_names().size());
}

}  // namespace

absl::Status RunServerRole(const ServerRoleOptions& options, StopRequest& stop) {
  const ReplicaIdentity& identity = options.identity;
  TY_ASSIGN_OR_RETURN(std::string address, ListenAddress(identity));
  TY_RETURN_IF_ERROR(CheckDevices(options.config, identity.trainer_count()));
  TY_ASSIGN_OR_RETURN(std::vector<ParameterSpec> specs, ParameterSpecsOf(options.config.model));
  const bool async = options.config.strategy.mode == StrategyConfig::Mode::kAsync;
  ServerProfile profile(options, specs);
  TY_ASSIGN_OR_RETURN(ServerUsage usage, ServerUsage::Create(options));
  OptimizerConfig optimizer = options.config.optimizer;
  optimizer.staleness = options.config.strategy.stale_gradients;
  TY_ASSIGN_OR_RETURN(const int64_t bytes, BytesOfServer(specs, optimizer, identity));
  const std::shared_ptr<LendableMemory> lendable = MakeJobMemory(identity, options.config);
  const std::unique_ptr<Transport> transport = MakeJobTransport(identity, options.config, lendable);
  TY_ASSIGN_OR_RETURN(const std::unique_ptr<KvServer> server,
                      WithMemoryFor("the parameters and optimizer slots of this server", bytes, [&] {
                        return KvServer::Create({.address = std::move(address),
                                                 .server = identity.index,
                                                 .servers = static_cast<int>(identity.ps_hosts.size()),
                                                 .workers = identity.trainer_count(),
                                                 .devices = options.config.devices,
                                                 .mode = async ? KvMode::kAsync : KvMode::kSync,
                                                 .compression = options.config.strategy.compression,
                                                 .optimizer = std::move(optimizer),
                                                 .specs = std::move(specs),
                                                 .lendable = lendable,
                                                 .timeouts = options.config.timeouts,
                                                 .profile = &profile.log()},
                                                *transport);
                      }));
  TY_ASSIGN_OR_RETURN(
      const std::unique_ptr<ProgressServer> progress_server,
      ProgressServer::Start({.host = identity.listen_host(), .port = options.http_port, .role = "ps", .index = identity.index}));
  LogInfo("server {} of {} listens at {} for {} workers", identity.index, identity.ps_hosts.size(), server->address(),
          identity.trainer_count());

  WaitNotice notice(absl::InfinitePast(), kShownWait);  // WaitText leaves out shorter waits
  Notification ended;
  absl::Status served;
  std::thread serving([&] {
    served = server->Run();
    ended.Notify();
  });
  while (!stop.requested() && !ended.WaitForNotificationWithTimeout(kPublishPeriod)) {
    const KvServerStats stats = server->stats();
    Progress progress;
    progress.step = stats.global_step;
    progress.refused_streams = stats.refused_streams;
    progress.updated_time = RealClock().Wall();
    progress.waiting = WaitText(stats.open_round, /*own_chief=*/!identity.chief_host.empty());
    if (!progress.waiting.empty() && notice.Due(RealClock().Now())) LogWarning("{}", progress.waiting);
    progress_server->Update(progress);
    // A failed write does not end the training of all workers; the end of this function tries
    // again.
    absl::Status recorded = usage.OnTick(progress.step);
    recorded.Update(profile.WriteWhenQuiet());
    if (!recorded.ok()) LogWarning("{}", std::string(recorded.message()));
  }
  if (stop.requested()) {
    AwaitReaders(*server, kStopShare * options.config.timeouts.stop, ended);
    server->Stop();
  }
  serving.join();

  std::error_code error;
  std::filesystem::create_directories(options.output + "/replicas", error);  // WriteReplicaReport tells what is wrong with it
  const KvServerStats stats = server->stats();
  if (stats.refused_streams > 0) LogWarning("server {} has refused {} streams", identity.index, stats.refused_streams);
  absl::Status recorded = usage.OnTick(stats.global_step);
  recorded.Update(profile.Write());
  if (!recorded.ok()) LogWarning("{}", std::string(recorded.message()));
  if (stop.requested() && served.ok()) served = absl::CancelledError("stopped");
  served.Update(WriteReplicaReport(options.output, ReportOf(stats, identity.index, usage.Conclude())));
  return served;
}

}  // namespace trainyard::engine
