#include "operator/program/options.h"

#include <charconv>

namespace trainyard::control {

std::optional<HostAndPort> ParseHostAndPort(std::string_view text) {
  const size_t colon = text.rfind(':');
  if (colon == text.npos || colon == 0) return std::nullopt;
  std::string_view host = text.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) {
    host = host.substr(1, host.size() - 2);
  } else if (host.find(':') != host.npos) {
    return std::nullopt;
  }
  int port = -1;
  const std::string_view digits = text.substr(colon + 1);
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), port);
  if (error != std::errc() || end != digits.data() + digits.size() || port < 0 || port > 65535) return std::nullopt;
  return HostAndPort{std::string(host), port};
}

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
  app.add_option("--page-address", options.page_address,
                 "HOST:PORT of the read-only page of all jobs; 127.0.0.1:8081 is reached by kubectl port-forward alone; no page when empty")
      ->check(CLI::Validator(
          [](std::string& text) {
            if (text.empty() || ParseHostAndPort(text)) return std::string();
            return "'" + text + "' is not HOST:PORT, such as 127.0.0.1:8081 or [::]:8081";
          },
          "HOST:PORT"));
  app.add_option("--page-hosts", options.page_hosts,
                 "names, separated by commas, that requests for the page may have as Host, beside localhost and IP addresses")
      ->delimiter(',');
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
