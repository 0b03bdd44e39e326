// trainyard-operator: flags → Options → clients, informers, queue, reconciler, elector; then waits for SIGTERM.
#include <fmt/format.h>
#include <httplib.h>
#include <prometheus/registry.h>
#include <signal.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <array>
#include <atomic>
#include <cstdlib>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "operator/api/core.h"
#include "operator/api/validation.h"
#include "operator/base/clock.h"
#include "operator/base/heap.h"
#include "operator/base/status_macros.h"
#include "operator/cache/informer.h"
#include "operator/controller/controller.h"
#include "operator/controller/event_recorder.h"
#include "operator/controller/fan_out.h"
#include "operator/controller/http_server.h"
#include "operator/controller/leader_elector.h"
#include "operator/controller/metrics.h"
#include "operator/kube/config.h"
#include "operator/kube/https_transport.h"
#include "operator/trainingjob/job_metrics.h"
#include "operator/trainingjob/progress_json.h"
#include "operator/trainingjob/progress_poller.h"
#include "operator/trainingjob/reconciler.h"
#include "trainyard_version.h"

namespace trainyard::control {
namespace {

struct Options {
  std::string kubeconfig;  // empty: in the cluster
  std::string context;
  std::vector<std::string> namespaces;  // empty: all
  int workers = 8;
  int parallel_calls = 48;
  double qps = 500;
  double burst = 1000;
  bool leader_elect = true;
  std::string leader_namespace;  // empty: the own one
  std::string metrics_host = "0.0.0.0";
  int metrics_port = 8080;
  std::string trainer_image = "trainyard/trainer:" TRAINYARD_VERSION;
  int progress_seconds = 10;
  std::string progress = "auto";
  bool watch_nodes = true;
  int force_delete_seconds = 60;
  int stalled_minutes = 15;
  std::string log_level = "info";
  std::string log_format = "text";
};

std::string Variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

void AddFlags(CLI::App& app, Options& options) {
  app.set_version_flag("--version", std::string("trainyard-operator " TRAINYARD_VERSION " (" TRAINYARD_COMMIT ")"));
  app.add_option("--kubeconfig", options.kubeconfig,
                 "kubeconfig file; without it $KUBECONFIG outside a cluster, and the pod's service account inside");
  app.add_option("--context", options.context, "context of the kubeconfig; its current one when empty");
  app.add_option("--namespaces", options.namespaces, "namespaces to watch, with commas; all when empty")->delimiter(',');
  app.add_option("--workers", options.workers, "jobs that are reconciled at once")->check(CLI::Range(1, 64))->capture_default_str();
  app.add_option("--parallel-calls", options.parallel_calls, "helpers that create and delete a job's children at once")
      ->check(CLI::Range(0, 64))
      ->capture_default_str();
  app.add_option("--qps", options.qps, "requests a second to the API server; 0: no limit of its own")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--burst", options.burst, "requests that may be sent at once above --qps")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_flag("--leader-elect,!--no-leader-elect", options.leader_elect,
               "act only while holding the Lease trainyard-operator (default true)");
  app.add_option("--leader-elect-namespace", options.leader_namespace, "namespace of the Lease; the operator's own when empty");
  app.add_option("--metrics-host", options.metrics_host, "address of /metrics, /healthz and /readyz")->capture_default_str();
  app.add_option("--metrics-port", options.metrics_port, "their port; 0: any free one")->check(CLI::Range(0, 65535))->capture_default_str();
  app.add_option("--trainer-image", options.trainer_image, "image of Trainyard replicas that name none")->capture_default_str();
  app.add_option("--progress-interval", options.progress_seconds, "seconds between two questions to a job's chief")
      ->check(CLI::Range(1, 3600))
      ->capture_default_str();
  app.add_option("--progress", options.progress,
                 "how chiefs are asked: direct (pod IP), proxy (API server), auto (direct in a cluster), off")
      ->check(CLI::IsMember({"auto", "direct", "proxy", "off"}))
      ->capture_default_str();
  app.add_flag("--watch-nodes,!--no-watch-nodes", options.watch_nodes,
               "watch nodes, to force-delete pods that are Terminating on one that is down (default true)");
  app.add_option("--force-delete-after", options.force_delete_seconds, "seconds beyond its grace after which that is done")
      ->check(CLI::Range(0, 86400))
      ->capture_default_str();
  app.add_option("--stalled-after", options.stalled_minutes, "minutes without a new step after which a job is Stalled")
      ->check(CLI::Range(1, 100000))
      ->capture_default_str();
  app.add_option("--log-level", options.log_level, "how much is logged")
      ->check(CLI::IsMember({"trace", "debug", "info", "warn", "error"}))
      ->capture_default_str();
  app.add_option("--log-format", options.log_format, "text, or one JSON object a line")
      ->check(CLI::IsMember({"text", "json"}))
      ->capture_default_str();
}

void SetUpLog(const Options& options) {
  spdlog::set_level(spdlog::level::from_str(options.log_level));
  if (options.log_format == "text") {
    spdlog::set_pattern("%Y-%m-%dT%H:%M:%S.%eZ %l %v", spdlog::pattern_time_type::utc);
    return;
  }
  class JsonLine : public spdlog::custom_flag_formatter {
   public:
    void format(const spdlog::details::log_msg& message, const std::tm& /*time*/, spdlog::memory_buf_t& line) override {
      const std::string text(message.payload.data(), message.payload.size());
      const std::string quoted = nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
      line.append(quoted.data(), quoted.data() + quoted.size());
    }
    std::unique_ptr<spdlog::custom_flag_formatter> clone() const override { return std::make_unique<JsonLine>(); }
  };
  auto formatter = std::make_unique<spdlog::pattern_formatter>(spdlog::pattern_time_type::utc);
  formatter->add_flag<JsonLine>('*').set_pattern(R"({"time":"%Y-%m-%dT%H:%M:%S.%eZ","level":"%l","message":%*})");
  spdlog::set_formatter(std::move(formatter));
}

struct Connection {
  KubeConfig config;
  bool in_cluster = false;
};

absl::StatusOr<Connection> FindCluster(const Options& options) {
  const std::string host = Variable("KUBERNETES_SERVICE_HOST");
  std::string path = options.kubeconfig;
  if (path.empty() && host.empty()) path = Variable("KUBECONFIG");
  if (path.empty() && host.empty()) path = Variable("HOME") + "/.kube/config";
  if (!path.empty()) {
    TY_ASSIGN_OR_RETURN(KubeConfig config, LoadKubeconfig(path, options.context));
    return Connection{std::move(config), false};
  }
  TY_ASSIGN_OR_RETURN(KubeConfig config, InClusterConfig(host, Variable("KUBERNETES_SERVICE_PORT")));
  return Connection{std::move(config), true};
}

absl::StatusOr<std::string> FetchDirectly(const ProgressTarget& target) {
  httplib::Client client(target.ip, target.port);
  client.set_connection_timeout(2);
  client.set_read_timeout(2);
  client.set_write_timeout(2);
  std::string body;
  const auto answer = client.Get("/progress", [&](const char* data, size_t size) {
    body.append(data, std::min(size, kMaxProgressBytes + 1 - std::min(body.size(), kMaxProgressBytes)));
    return body.size() <= kMaxProgressBytes;
  });
  if (!answer)
    return absl::UnavailableError(fmt::format("GET http://{}:{}/progress: {}", target.ip, target.port, httplib::to_string(answer.error())));
  if (answer->status != 200)
    return absl::UnavailableError(
        fmt::format("GET http://{}:{}/progress: found code {}, expected 200", target.ip, target.port, answer->status));
  return body;
}

ProgressFetch MakeFetch(const Options& options, bool in_cluster, Client& client) {
  if (options.progress == "direct" || (options.progress == "auto" && in_cluster)) return FetchDirectly;
  return [&client](const ProgressTarget& target) {
    const std::string path = fmt::format("/api/v1/namespaces/{}/pods/{}:{}/proxy/progress", target.ns, target.pod, target.port);
    return client.GetText(path, absl::Seconds(2), kMaxProgressBytes);
  };
}

std::string Identity() {
  std::array<char, 256> host{};
  gethostname(host.data(), host.size() - 1);
  const std::string pod = Variable("POD_NAME");
  return fmt::format("{}_{}", pod.empty() ? host.data() : pod, absl::ToUnixNanos(absl::Now()));
}

InformerOptions Watching(const Options& options, std::string selector) {
  InformerOptions informer;
  informer.namespaces = options.namespaces;
  informer.reflector.label_selector = std::move(selector);
  return informer;
}

// Everything that lives as long as the process, in the order in which it is built; destroyed the other way round.
class Operator {
 public:
  Operator(const Options& options, Connection connection, std::unique_ptr<Transport> transport)
      : options_(options),
        connection_(std::move(connection)),
        transport_(std::move(transport)),
        throttle_(clock_, {.qps = options.qps, .burst = options.burst}),
        lease_throttle_(clock_, {.qps = 5, .burst = 10}),
        client_(*transport_, throttle_, clock_,
                {.observe = [this](std::string_view verb, int code, absl::Duration took) { metrics_.ApiRequest(verb, code, took); },
                 .read = FieldsThatAreRead()}),
        jobs_(client_, clock_, kTrainingJobs, Watching(options, ""),
              [defaults = DefaultOptions{options.trainer_image}](const nlohmann::json& object) { return DecodeJob(defaults, object); }),
        pods_(client_, clock_, kPods, Watching(options, std::string(kJobUidLabel)), Pod::FromJson),
        services_(client_, clock_, kServices, Watching(options, std::string(kJobUidLabel)), Service::FromJson),
        configs_(client_, clock_, kConfigMaps, Watching(options, std::string(kJobUidLabel)), ConfigMap::FromJson),
        nodes_(client_, clock_, kNodes, {}, Node::FromJson),
        events_(client_, clock_, metrics_, {.instance = Identity()}),
        fan_out_(options.parallel_calls),
        progress_(clock_, MakeFetch(options, connection_.in_cluster, client_),
                  {.interval = absl::Seconds(options.progress_seconds), .threads = options.progress == "off" ? 0 : 2},
                  [this](const std::string& key) { queue_.Add(key); }),
        queue_(clock_),
        reconciler_(client_, clock_, {jobs_, pods_, services_, configs_, options.watch_nodes ? &nodes_ : nullptr}, events_, fan_out_,
                    progress_, job_metrics_, ReconcilerOptions(options)),
        controller_(queue_, reconciler_, clock_, metrics_, {.workers = options.workers}),
        http_({.host = options.metrics_host, .port = options.metrics_port}) {}

  // Runs until `signals` has one; the process's exit code.
  int Run(const sigset_t& signals) {
    http_.ServeMetrics(registry_);
    http_.AddLiveness("process", [] { return absl::OkStatus(); });
    http_.AddReadiness("caches",
                       [this] { return Synced() ? absl::OkStatus() : absl::UnavailableError("the first lists have not come in yet"); });
    const absl::StatusOr<int> port = http_.Start();
    if (!port.ok()) {
      spdlog::error("{}", port.status().ToString());
      return 1;
    }
    spdlog::info("trainyard-operator {} ({}): API server {}, metrics on port {}", TRAINYARD_VERSION, TRAINYARD_COMMIT,
                 connection_.config.server, *port);
    reconciler_.Connect(queue_);
    jobs_.Start();
    pods_.Start();
    services_.Start();
    configs_.Start();
    if (options_.watch_nodes) nodes_.Start();
    events_.Start();
    const auto lead = [this] { lead_ = std::thread([this] { Lead(); }); };
    std::unique_ptr<LeaderElector> elector;
    if (options_.leader_elect) {
      LeaderElectorOptions lease;
      lease.ns = options_.leader_namespace.empty() ? connection_.config.ns : options_.leader_namespace;
      lease.identity = Identity();
      elector = std::make_unique<LeaderElector>(*transport_, lease_throttle_, clock_, std::move(lease), lead, [this] { LoseLead(); });
      elector->Start();
    } else {
      lead();
    }
    int signal = 0;
    sigwait(&signals, &signal);
    spdlog::info("stops: {}", lost_ ? "the lease was lost" : strsignal(signal));
    stopping_ = true;
    controller_.Stop(absl::Seconds(10));
    events_.Stop(absl::Seconds(3));
    if (elector != nullptr) elector->Stop();
    if (lead_.joinable()) lead_.join();
    client_.Stop();
    progress_.Stop();
    jobs_.Stop();
    pods_.Stop();
    services_.Stop();
    configs_.Stop();
    nodes_.Stop();
    http_.Stop();
    return lost_ ? 1 : 0;
  }

 private:
  static TrainingJobReconcilerOptions ReconcilerOptions(const Options& options) {
    TrainingJobReconcilerOptions reconciler;
    reconciler.plan.force_delete_after = absl::Seconds(options.force_delete_seconds);
    reconciler.plan.stalled_progress_after = absl::Minutes(options.stalled_minutes);
    return reconciler;
  }

  bool Synced() const {
    return jobs_.HasSynced() && pods_.HasSynced() && services_.HasSynced() && configs_.HasSynced() &&
           (!options_.watch_nodes || nodes_.HasSynced());
  }

  // Decisions need complete caches, or missing children would be made twice. On a thread of its own: the lease is renewed meanwhile.
  void Lead() {
    Mutex mutex;
    CondVar never;
    while (!Synced() && !stopping_) {
      MutexLock lock(mutex);
      clock_.WaitUntil(never, mutex, clock_.Monotonic() + absl::Milliseconds(20));
    }
    if (stopping_) return;
    metrics_.Leading(true);
    progress_.Start();
    controller_.Start();
    spdlog::info("leads: {} jobs, {} pods", jobs_.lister().Size(), pods_.lister().Size());
  }

  // Somebody else acts from now on: nothing may be written any more, and the process starts afresh.
  void LoseLead() {
    if (stopping_) return;
    lost_ = true;
    client_.Stop();
    metrics_.Leading(false);
    kill(getpid(), SIGTERM);
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
  Client client_;
  Informer<TrainingJob> jobs_;
  Informer<Pod> pods_;
  Informer<Service> services_;
  Informer<ConfigMap> configs_;
  Informer<Node> nodes_;
  EventRecorder events_;
  FanOut fan_out_;
  ProgressPoller progress_;
  WorkQueue queue_;
  TrainingJobReconciler reconciler_;
  Controller controller_;
  HttpServer http_;
  std::thread lead_;
  std::atomic<bool> stopping_ = false;
  std::atomic<bool> lost_ = false;
};

int Main(int argc, char** argv) {
  KeepHeapSmall();
  Options options;
  CLI::App app("Runs TrainingJobs (trainyard.dev/v1alpha1) on a Kubernetes cluster.", "trainyard-operator");
  AddFlags(app, options);
  CLI11_PARSE(app, argc, argv);
  SetUpLog(options);
  // Blocked before any thread starts, so that only Run's sigwait sees them.
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  signal(SIGPIPE, SIG_IGN);
  auto connection = FindCluster(options);
  if (!connection.ok()) {
    spdlog::error("no cluster: {}", connection.status().ToString());
    return 1;
  }
  auto transport = MakeHttpsTransport(connection->config, RealClock());
  if (!transport.ok()) {
    spdlog::error("no cluster: {}", transport.status().ToString());
    return 1;
  }
  return Operator(options, *std::move(connection), *std::move(transport)).Run(signals);
}

}  // namespace
}  // namespace trainyard::control

int main(int argc, char** argv) { return trainyard::control::Main(argc, argv); }
