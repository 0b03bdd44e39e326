#include "operator/children/serve_builder.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "operator/api/core.h"
#include "operator/api/json_read.h"
#include "operator/children/child_meta.h"
#include "operator/children/labels.h"
#include "operator/children/pod_builder.h"

namespace trainyard::control {
namespace {

using nlohmann::json;

constexpr int kGrpcPort = 8081;
constexpr char kSleepSeconds[] = "5";    // the Service forgets the pod before
constexpr int kNoDeadline = 2147483647;  // as Kubernetes has it
constexpr char kVolume[] = "trainyard-storage";

json PodLabels(const TrainingJob& job) { return {{kServeLabel, job.meta.name}, {kServeUidLabel, job.meta.uid}}; }

json Resources(const ServeSpec& serve) {
  if (serve.resources.empty()) return {{"requests", {{"cpu", "100m"}, {"memory", "64Mi"}}}};
  return json::parse(serve.resources, nullptr, /*allow_exceptions=*/false);
}

json Probe(const char* path, int period_seconds) {
  return {{"httpGet", {{"path", path}, {"port", "http"}}}, {"periodSeconds", period_seconds}};
}

json Port(const char* name, int port, const char* key) { return {{"name", name}, {key, port}, {"protocol", "TCP"}}; }

json Container(const TrainingJob& job) {
  json args = {"serve", ServeFolder(job), "--name", job.meta.name, "--host", "0.0.0.0"};
  if (job.spec.serve->when == ServeWhen::kBest) args.push_back("--best");
  json command = {"trainyard-trainer"};
  return {{"name", "serve"},
          {"image", ImageOf(job)},
          {"command", std::move(command)},
          {"args", std::move(args)},
          {"ports", json::array({Port("http", kServePort, "containerPort"), Port("grpc", kGrpcPort, "containerPort")})},
          {"readinessProbe", Probe("/readyz", 2)},
          {"livenessProbe", Probe("/healthz", 10)},
          {"lifecycle", {{"preStop", {{"exec", {{"command", {"sleep", kSleepSeconds}}}}}}}},
          {"resources", Resources(*job.spec.serve)},
          {"volumeMounts", json::array({{{"name", kVolume}, {"mountPath", job.spec.storage.mount_path}, {"readOnly", true}}})},
          {"terminationMessagePolicy", "FallbackToLogsOnError"},
          {"securityContext", TrainerSecurityContext()}};
}

json DeploymentSpec(const TrainingJob& job) {
  const bool paused = job.spec.run_policy.suspend && !job.status.Finished();
  const json volume = {{"name", kVolume}, {"persistentVolumeClaim", {{"claimName", job.spec.storage.claim_name}}}};
  json spec = {{"replicas", paused ? 0 : job.spec.serve->replicas},
               {"selector", {{"matchLabels", PodLabels(job)}}},
               {"template",
                {{"metadata", {{"labels", PodLabels(job)}}},
                 {"spec",
                  {{"containers", json::array({Container(job)})},
                   {"volumes", json::array({volume})},
                   {"automountServiceAccountToken", false},
                   {"enableServiceLinks", false},
                   {"securityContext", {{"fsGroup", kTrainerGroup}, {"fsGroupChangePolicy", "OnRootMismatch"}}}}}}}};
  // The first best checkpoint may take hours to come.
  if (job.spec.serve->when == ServeWhen::kBest) spec["progressDeadlineSeconds"] = kNoDeadline;
  return spec;
}

}  // namespace

std::string ServeFolder(const TrainingJob& job) {
  const json training = json::parse(job.spec.training.empty() ? "{}" : job.spec.training, nullptr, /*allow_exceptions=*/false);
  const std::string dir = json_read::String(json_read::Get(training, "checkpoint"), "dir");
  if (dir.empty()) return OutputFolder(job);
  return dir.front() == '/' ? dir : OutputFolder(job) + "/" + dir;
}

std::string ServeUrl(const TrainingJob& job) {
  const std::string& domain = job.spec.network.cluster_domain;
  return fmt::format("http://{}.{}.svc{}{}:{}/v1/models/{}", ServeName(job), job.meta.name_space, domain.empty() ? "" : ".", domain,
                     kServePort, job.meta.name);
}

json BuildServeDeployment(const TrainingJob& job) {
  return {{"apiVersion", "apps/v1"},
          {"kind", "Deployment"},
          {"metadata", ChildMeta(job, ServeName(job), std::nullopt)},
          {"spec", DeploymentSpec(job)}};
}

json BuildServeService(const TrainingJob& job) {
  const auto port = [](const char* name, int number) {
    json object = Port(name, number, "port");
    object["targetPort"] = name;
    return object;
  };
  return {{"apiVersion", "v1"},
          {"kind", "Service"},
          {"metadata", ChildMeta(job, ServeName(job), std::nullopt)},
          {"spec", {{"selector", PodLabels(job)}, {"ports", json::array({port("http", kServePort), port("grpc", kGrpcPort)})}}}};
}

std::string ServeHash(const TrainingJob& job) { return ConfigMap::ContentHash(DeploymentSpec(job)); }

}  // namespace trainyard::control
