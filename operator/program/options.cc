#include "operator/program/options.h"

#include <fmt/format.h>

#include <string>
#include <string_view>

#include "operator/api/field_words.h"
#include "operator/program/flag_values.h"

namespace trainyard::control {

namespace {

std::string DescribeUnknown(const CLI::App& app, const std::string& argument) {
  if (!argument.starts_with('-')) return fmt::format("found \"{}\", expected flags only", argument);
  std::vector<std::string> known;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) known.push_back("--" + name);
  }
  const std::string name = argument.substr(0, argument.find('='));
  const std::string_view nearest = NearestName(name, known);
  return fmt::format("unknown flag \"{}\"{}", name, nearest.empty() ? "" : fmt::format("; did you mean \"{}\"?", nearest));
}

}  // namespace

std::string DescribeMistake(const CLI::App& app, const CLI::ParseError& error) {
  if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr) {
    std::string lines;
    for (const std::string& argument : app.remaining()) lines += (lines.empty() ? "" : "\n") + DescribeUnknown(app, argument);
    return lines;
  }
  const std::string words = error.what();
  if (dynamic_cast<const CLI::ArgumentMismatch*>(&error) == nullptr) return words;
  return fmt::format("{}: missing, expected a value behind it", words.substr(0, words.find(':')));
}

void AddFlags(CLI::App& app, Options& options) {
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  app.set_version_flag("--version", std::string("trainyard-operator " TRAINYARD_VERSION " (" TRAINYARD_COMMIT ")"));
  app.add_option("--kubeconfig", options.kubeconfig,
                 "kubeconfig file; without it $KUBECONFIG outside a cluster, and the pod's service account inside");
  app.add_option("--context", options.context, "context of the kubeconfig; its current one when empty");
  app.add_option("--namespaces", options.namespaces, "namespaces to watch, separated by commas; all when empty")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->delimiter(',');
  app.add_option("--workers", options.workers, "jobs reconciled at the same time")->check(WholeNumber(1, 64))->capture_default_str();
  app.add_option("--parallel-calls", options.parallel_calls, "threads that create and delete children, beside the workers")
      ->check(WholeNumber(0, 64))
      ->capture_default_str();
  app.add_option("--qps", options.qps, "requests a second to the API server; 0: no limit")->check(NumberFrom(0))->capture_default_str();
  app.add_option("--burst", options.burst, "requests that may be sent at once above --qps")->check(NumberAbove(0))->capture_default_str();
  app.add_flag("--leader-elect,!--no-leader-elect", options.leader_elect,
               "act only while holding the Lease trainyard-operator (default true)")
      ->check(TrueOrFalse());
  app.add_option("--leader-elect-namespace", options.leader_namespace, "namespace of the Lease; the operator's own when empty");
  app.add_option("--metrics-host", options.metrics_host, "address of /metrics, /healthz and /readyz")->capture_default_str();
  app.add_option("--metrics-port", options.metrics_port, "port of /metrics, /healthz and /readyz; 0: any free port")
      ->check(WholeNumber(0, 65535))
      ->capture_default_str();
  app.add_option("--page-address", options.page_address,
                 "HOST:PORT of the read-only page of all jobs; 127.0.0.1:8081 is reached by kubectl port-forward alone; no page when empty")
      ->check(HostAndPortOrNothing());
  app.add_option("--page-hosts", options.page_hosts,
                 "names, separated by commas, that requests for the page may have as Host, beside localhost and IP addresses")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->delimiter(',');
  app.add_option("--trainer-image", options.trainer_image, "image of Trainyard replicas whose job names none")->capture_default_str();
  app.add_flag("--keys-in-secrets", options.keys_in_secrets,
               "keep each job's key in a Secret, not in its ConfigMap; needs the right to create Secrets")
      ->check(TrueOrFalse());
  app.add_option("--native-pod-groups", options.native_pod_groups,
                 "version of scheduling.k8s.io whose PodGroups jobs of gang Native get: v1beta1, or v1alpha2 on Kubernetes 1.36")
      ->check(OneOf({"v1alpha2", "v1beta1"}))
      ->capture_default_str();
  app.add_option("--progress-interval", options.progress_seconds, "seconds between two requests for the progress of a job")
      ->check(WholeNumber(1, 3600))
      ->capture_default_str();
  app.add_option("--progress", options.progress,
                 "how a chief's progress is fetched: direct (pod IP), proxy (API server), auto (direct in a cluster), off")
      ->check(OneOf({"auto", "direct", "proxy", "off"}))
      ->capture_default_str();
  app.add_flag("--watch-nodes,!--no-watch-nodes", options.watch_nodes,
               "watch nodes, to force-delete Terminating pods on nodes that are down (default true)")
      ->check(TrueOrFalse());
  app.add_option("--force-delete-after", options.force_delete_seconds,
                 "seconds from the end of such a pod's grace period to its force deletion")
      ->check(WholeNumber(0, 86400))
      ->capture_default_str();
  app.add_option("--stalled-after", options.stalled_minutes, "minutes without a new step after which a job is Stalled")
      ->check(WholeNumber(1, 100000))
      ->capture_default_str();
  app.add_option("--log-level", options.log_level, "least important messages that are logged")
      ->check(OneOf({"trace", "debug", "info", "warn", "error"}))
      ->capture_default_str();
  app.add_option("--log-format", options.log_format, "form of the log: text, or one JSON object a line")
      ->check(OneOf({"text", "json"}))
      ->capture_default_str();
}

}  // namespace trainyard::control
