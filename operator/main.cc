// trainyard-operator: flags → connection → a list of runnables, which is started, waits for
// SIGTERM, and is stopped the other way round.
#include <fmt/format.h>
#include <prometheus/registry.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "operator/base/clock.h"
#include "operator/base/heap.h"
#include "operator/base/log.h"
#include "operator/base/status_macros.h"
#include "operator/controller/controller.h"
#include "operator/controller/event_recorder.h"
#include "operator/controller/fan_out.h"
#include "operator/controller/http_server.h"
#include "operator/controller/leader_elector.h"
#include "operator/controller/metrics.h"
#include "operator/controller/runnables.h"
#include "operator/kube/https_transport.h"
#include "operator/page/page_server.h"
#include "operator/program/caches.h"
#include "operator/program/connection.h"
#include "operator/program/host_and_port.h"
#include "operator/program/log.h"
#include "operator/program/options.h"
#include "operator/program/unreadable_reports.h"
#include "operator/progress/progress_fetch.h"
#include "operator/progress/progress_poller.h"
#include "operator/trainingjob/job_metrics.h"
#include "operator/trainingjob/reconciler.h"
#include "trainyard_version.h"

namespace trainyard::control {
namespace {

ProgressFetch MakeFetch(const Options& options, bool in_cluster, Transport& transport) {
  if (options.progress == "direct" || (options.progress == "auto" && in_cluster)) return FetchFromPod(RealClock());
  return FetchThroughApiServer(transport);
}

// Everything that lives as long as the process, in the order in which it is built. It is destroyed
// in the opposite order.
class Operator {
 public:
  Operator(const Options& options, Connection connection, std::unique_ptr<Transport> transport)
      : options_(options),
        connection_(std::move(connection)),
        transport_(std::move(transport)),
        throttle_(clock_, {.qps = options.qps, .burst = options.burst}),
        lease_throttle_(clock_, {.qps = 5, .burst = 10}),
        elector_(MakeElector(*this)),
        client_(*transport_, throttle_, clock_,
                {.observe = [this](std::string_view verb, int code, absl::Duration took) { metrics_.ApiRequest(verb, code, took); },
                 .write_until = [this] { return elector_ ? elector_->MayWriteUntil() : absl::InfiniteDuration(); },
                 .read = FieldsThatAreRead()}),
        caches_(client_, clock_, options, [this](const Resource& resource, const Unreadable& object) { Report(resource, object); }),
        events_(client_, clock_, metrics_, {.instance = ProcessIdentity()}),
        fan_out_(options.parallel_calls),
        progress_(clock_, MakeFetch(options, connection_.in_cluster, *transport_),
                  {.interval = absl::Seconds(options.progress_seconds), .parallel = options.progress == "off" ? 0 : 16},
                  [this](const std::string& key) { queue_.Add(key); }),
        // A version changes with a checkpoint, and is asked for as long as the job is there.
        versions_(clock_, MakeFetch(options, connection_.in_cluster, *transport_),
                  {.interval = absl::Seconds(3 * options.progress_seconds), .parallel = options.progress == "off" ? 0 : 4},
                  [this](const std::string& key) { queue_.Add(key); }),
        // Of a thousand new jobs each is much work: half of the workers see to the others.
        queue_(clock_, {.backlog_at_once = options.workers / 2}),
        reconciler_(client_, clock_, caches_.informers(), events_, fan_out_, progress_, versions_, job_metrics_,
                    ReconcilerOptions(options)),
        controller_(queue_, reconciler_, clock_, metrics_, {.workers = options.workers}),
        http_({.host = options.metrics_host, .port = options.metrics_port}),
        page_(MakePage(options, clock_, caches_)) {}

  // Runs until `signals` has one; the process's exit code.
  int Run(const sigset_t& signals) {
    Runnables parts(Parts());
    if (const absl::Status status = parts.Start(); !status.ok()) {
      LogError("{}", status.ToString());
      return 1;
    }
    int signal = 0;
    sigwait(&signals, &signal);
    LogInfo("stops: {}", lost_ ? "the lease was lost" : strsignal(signal));
    stopping_ = true;
    parts.Stop();
    return lost_ ? 1 : 0;
  }

 private:
  static TrainingJobReconcilerOptions ReconcilerOptions(const Options& options) {
    TrainingJobReconcilerOptions reconciler;
    reconciler.plan.force_delete_after = absl::Seconds(options.force_delete_seconds);
    reconciler.plan.ask_versions = options.progress != "off";
    reconciler.plan.stalled_progress_after = absl::Minutes(options.stalled_minutes);
    return reconciler;
  }

  // In the order of their start. The stop goes the other way. No key is begun any more, and events
  // that wait are sent. Then nothing can be written and every writer has ended. Only then is the
  // lease given up.
  std::vector<Runnable> Parts() {
    const auto start = [](auto function) {
      return [function] {
        function();
        return absl::OkStatus();
      };
    };
    return {
        {"http", [this] { return StartHttp(); }, [this] { http_.Stop(); }},
        {"caches", start([this] {
           reconciler_.Connect(queue_);
           caches_.Start();
         }),
         [this] { caches_.Stop(); }},
        {"page", [this] { return StartPage(); },
         [this] {
           if (page_) page_->Stop();
         }},
        {"leader election", start([this] { elector_ ? elector_->Start() : LeadAlone(); }),
         [this] {
           if (elector_) elector_->Stop();
         }},
        {"writes", start([] {}),
         [this] {
           client_.Stop();
           controller_.Join();
         }},
        {"events", start([this] { events_.Start(); }), [this] { events_.Stop(absl::Seconds(3)); }},
        {"jobs", start([this] { lead_ = std::jthread([this](const std::stop_token& stop) { Lead(stop); }); }), [this] { StopJobs(); }},
    };
  }

  absl::Status StartHttp() {
    http_.ServeMetrics(registry_);
    http_.AddLiveness("caches", [this] { return caches_.Health(); });
    http_.AddReadiness("caches", [this] {
      return caches_.HasSynced() ? absl::OkStatus() : absl::UnavailableError("the first lists have not come in yet");
    });
    if (elector_) http_.AddLiveness("leader election", [this] { return elector_->Health(); });
    TY_ASSIGN_OR_RETURN(const int port, http_.Start());
    LogInfo("trainyard-operator {} ({}): API server {}, metrics on port {}", TRAINYARD_VERSION, TRAINYARD_COMMIT, connection_.config.server,
            port);
    return absl::OkStatus();
  }

  absl::Status StartPage() {
    if (!page_) return absl::OkStatus();
    TY_ASSIGN_OR_RETURN(const int port, page_->Start());
    LogInfo("page of all jobs on port {}", port);
    return absl::OkStatus();
  }

  // An object that cannot be read is left out: its owner is to hear of it.
  void Report(const Resource& resource, const Unreadable& object) {
    metrics_.Unreadable(resource.plural);
    unreadable_.Add(resource, object);
  }

  void LeadAlone() { leads_ = true; }

  // Decisions need the lease and complete caches, or missing children would be made twice.
  void Lead(const std::stop_token& stop) {
    while (!leads_ || !caches_.HasSynced()) {
      if (!SleepFor(clock_, absl::Milliseconds(20), stop)) return;
    }
    metrics_.Leading(true);
    unreadable_.Lead();
    progress_.Start();
    versions_.Start();
    controller_.Start();
    LogInfo("leads: {} jobs, {} pods", caches_.Jobs(), caches_.Pods());
  }

  void StopJobs() {
    lead_ = {};
    controller_.Stop(absl::Seconds(10));
    progress_.Stop();
    versions_.Stop();
  }

  // Another operator may act from now on: nothing may be written any more, and the process starts
  // afresh.
  void LoseLead() {
    if (stopping_) return;
    lost_ = true;
    client_.Stop();
    metrics_.Leading(false);
    kill(getpid(), SIGTERM);
  }

  // Not the leader's alone: every operator sees all jobs.
  static std::unique_ptr<PageServer> MakePage(const Options& options, Clock& clock, const Caches& caches) {
    const std::optional<HostAndPort> address = ParseHostAndPort(options.page_address);
    if (!address) return nullptr;
    return std::make_unique<PageServer>(clock, caches.JobLister(), caches.PodLister(),
                                        PageOptions{.host = address->host, .port = address->port, .hosts = options.page_hosts});
  }

  static std::unique_ptr<LeaderElector> MakeElector(Operator& self) {
    if (!self.options_.leader_elect) return nullptr;
    LeaderElectorOptions lease;
    lease.ns = self.options_.leader_namespace.empty() ? self.connection_.config.ns : self.options_.leader_namespace;
    lease.identity = ProcessIdentity();
    return std::make_unique<LeaderElector>(
        *self.transport_, self.lease_throttle_, self.clock_, std::move(lease), [&self] { self.leads_ = true; },
        [&self] { self.LoseLead(); });
  }

  const Options options_;
  const Connection connection_;
  Clock& clock_ = RealClock();
  std::shared_ptr<prometheus::Registry> registry_ = std::make_shared<prometheus::Registry>();
  ControllerMetrics metrics_{*registry_};
  JobMetrics job_metrics_{*registry_};
  std::unique_ptr<Transport> transport_;
  Throttle throttle_;
  Throttle lease_throttle_;  // its own, so that a busy client does not cost the lease
  std::atomic<bool> leads_ = false;
  std::atomic<bool> stopping_ = false;
  std::atomic<bool> lost_ = false;
  std::unique_ptr<LeaderElector> elector_;  // null: no other operator acts
  Client client_;
  UnreadableReports unreadable_{[this](const ObjectReference& about, const std::string& note) {
    events_.Record(about, EventType::kWarning, "Unreadable", "Read", note);
  }};
  Caches caches_;
  EventRecorder events_;
  FanOut fan_out_;
  ProgressPoller progress_;
  VersionPoller versions_;
  WorkQueue queue_;
  TrainingJobReconciler reconciler_;
  Controller controller_;
  HttpServer http_;
  std::unique_ptr<PageServer> page_;  // null: no page
  std::jthread lead_;
};

int Main(int argc, char** argv) {
  KeepHeapSmall();
  Options options;
  CLI::App app("Runs TrainingJobs (trainyard.dev/v1alpha1) on a Kubernetes cluster.", "trainyard-operator");
  AddFlags(app, options);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& asked) {  // --help and --version
    return app.exit(asked);
  } catch (const CLI::ParseError& error) {
    fmt::print(stderr, "error: {}\ntrainyard-operator --help has all flags\n", DescribeMistake(app, error));
    return 2;  // as trainyard-trainer says a wrong command line
  }
  SetUpLog(options.log_level, options.log_format);
  // Blocked before any thread starts, so that only Run's sigwait sees them.
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  signal(SIGPIPE, SIG_IGN);
  auto connection = FindCluster(options);
  if (!connection.ok()) {
    LogError("no cluster: {}", std::string(connection.status().message()));
    return 1;
  }
  auto transport = MakeHttpsTransport(connection->config, RealClock());
  if (!transport.ok()) {
    LogError("no cluster: {}", std::string(transport.status().message()));
    return 1;
  }
  return Operator(options, *std::move(connection), *std::move(transport)).Run(signals);
}

}  // namespace
}  // namespace trainyard::control

int main(int argc, char** argv) { return trainyard::control::Main(argc, argv); }
