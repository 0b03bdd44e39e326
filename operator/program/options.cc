#include "operator/program/options.h"

namespace trainyard::control {

void AddFlags(CLI::App& app, Options& options) {
  app.set_version_flag("--version", std::string("trainyard-operator " TRAINYARD_VERSION " (" TRAINYARD_COMMIT ")"));
  app.add_option("--kubeconfig", options.kubeconfig,
                 "kubeconfig file; without it $KUBECONFIG outside a cluster, and the pod's service account inside");
  app.add_option("--context", options.context, "context of the kubeconfig; its current one when empty");
  app.add_option("--namespaces", options.namespaces, "namespaces to watch, separated by commas; all when empty")->delimiter(',');
  app.add_option("--workers", options.workers, "jobs reconciled at the same time")->check(CLI::Range(1, 64))->capture_default_str();
  app.add_option("--parallel-calls", options.parallel_calls, "threads that create and delete children, beside the workers")
      ->check(CLI::Range(0, 64))
      ->capture_default_str();
  app.add_option("--qps", options.qps, "requests a second to the API server; 0: no limit")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--burst", options.burst, "requests that may be sent at once above --qps")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_flag("--leader-elect,!--no-leader-elect", options.leader_elect,
               "act only while holding the Lease trainyard-operator (default true)");
  app.add_option("--leader-elect-namespace", options.leader_namespace, "namespace of the Lease; the operator's own when empty");
  app.add_option("--metrics-host", options.metrics_host, "address of /metrics, /healthz and /readyz")->capture_default_str();
  app.add_option("--metrics-port", options.metrics_port, "port of /metrics, /healthz and /readyz; 0: any free port")
      ->check(CLI::Range(0, 65535))
      ->capture_default_str();
  app.add_option("--trainer-image", options.trainer_image, "image of Trainyard replicas whose job names none")->capture_default_str();
  app.add_flag("--keys-in-secrets", options.keys_in_secrets,
               "keep each job's key in a Secret, not in its ConfigMap; needs the right to create Secrets");
  app.add_option("--progress-interval", options.progress_seconds, "seconds between two requests for the progress of a job")
      ->check(CLI::Range(1, 3600))
      ->capture_default_str();
  app.add_option("--progress", options.progress,
                 "how a chief's progress is fetched: direct (pod IP), proxy (API server), auto (direct in a cluster), off")
      ->check(CLI::IsMember({"auto", "direct", "proxy", "off"}))
      ->capture_default_str();
  app.add_flag("--watch-nodes,!--no-watch-nodes", options.watch_nodes,
               "watch nodes, to force-delete Terminating pods on nodes that are down (default true)");
  app.add_option("--force-delete-after", options.force_delete_seconds,
                 "seconds from the end of such a pod's grace period to its force deletion")
      ->check(CLI::Range(0, 86400))
      ->capture_default_str();
  app.add_option("--stalled-after", options.stalled_minutes, "minutes without a new step after which a job is Stalled")
      ->check(CLI::Range(1, 100000))
      ->capture_default_str();
  app.add_option("--log-level", options.log_level, "least important messages that are logged")
      ->check(CLI::IsMember({"trace", "debug", "info", "warn", "error"}))
      ->capture_default_str();
  app.add_option("--log-format", options.log_format, "form of the log: text, or one JSON object a line")
      ->check(CLI::IsMember({"text", "json"}))
      ->capture_default_str();
}

}  // namespace trainyard::control
