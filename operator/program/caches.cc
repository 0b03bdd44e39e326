#include "operator/program/caches.h"

#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "operator/api/validation.h"
#include "operator/base/status_macros.h"

namespace trainyard::control {
namespace {

DefaultOptions DefaultsOf(const Options& options) {
  return {.trainer_image = options.trainer_image,
          .keys_in_secrets = options.keys_in_secrets,
          .native_pod_groups = options.native_pod_groups == "v1alpha2" ? NativeVersion::kV1Alpha2 : NativeVersion::kV1Beta1};
}

InformerOptions Watching(const Options& options, const Caches::UnreadableReport& report, std::string selector) {
  InformerOptions informer;
  informer.on_unreadable = report;
  informer.namespaces = options.namespaces;
  informer.reflector.label_selector = std::move(selector);
  return informer;
}

}  // namespace

Caches::Caches(Client& client, Clock& clock, const Options& options, const UnreadableReport& report)
    : watch_nodes_(options.watch_nodes),
      jobs_(client, clock, kTrainingJobs, Watching(options, report, ""),
            [defaults = DefaultsOf(options)](const nlohmann::json& object) { return DecodeJob(defaults, object); }),
      pods_(client, clock, kPods, Watching(options, report, std::string(kJobUidLabel)), Pod::FromJson),
      services_(client, clock, kServices, Watching(options, report, std::string(kJobUidLabel)), Service::FromJson),
      configs_(client, clock, kConfigMaps, Watching(options, report, std::string(kJobUidLabel)), ConfigMap::FromJson),
      deployments_(client, clock, kDeployments, Watching(options, report, std::string(kJobUidLabel)), Deployment::FromJson),
      nodes_(client, clock, kNodes, {.on_unreadable = report}, Node::FromJson) {}

void Caches::Start() {
  jobs_.Start();
  pods_.Start();
  services_.Start();
  configs_.Start();
  deployments_.Start();
  if (watch_nodes_) nodes_.Start();
}

void Caches::Stop() {
  jobs_.Stop();
  pods_.Stop();
  services_.Stop();
  configs_.Stop();
  deployments_.Stop();
  nodes_.Stop();
}

bool Caches::HasSynced() const {
  return jobs_.HasSynced() && pods_.HasSynced() && services_.HasSynced() && configs_.HasSynced() && deployments_.HasSynced() &&
         (!watch_nodes_ || nodes_.HasSynced());
}

absl::Status Caches::Health() const {
  for (const absl::Status& status : {jobs_.Health(), pods_.Health(), services_.Health(), configs_.Health(), deployments_.Health()})
    TY_RETURN_IF_ERROR(status);
  return watch_nodes_ ? nodes_.Health() : absl::OkStatus();
}

}  // namespace trainyard::control
