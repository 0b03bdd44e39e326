#include "operator/children/service_builder.h"

#include <nlohmann/json.hpp>

#include "operator/children/child_meta.h"

namespace trainyard::control {
namespace {

using nlohmann::json;

json Build(const TrainingJob& job, std::string name, const std::optional<ReplicaId>& id) {
  const json port = {{"name", "trainyard"}, {"port", job.spec.network.port}, {"targetPort", job.spec.network.port}, {"protocol", "TCP"}};
  return {{"apiVersion", "v1"},
          {"kind", "Service"},
          {"metadata", ChildMeta(job, std::move(name), id)},
          {"spec",
           {{"clusterIP", "None"},
            {"publishNotReadyAddresses", true},
            {"selector", ChildLabelsJson(job, id)},
            {"ports", json::array({port})}}}};
}

}  // namespace

json BuildReplicaService(const TrainingJob& job, const ReplicaId& id) { return Build(job, ChildName(job, id), id); }

json BuildHeadlessService(const TrainingJob& job) { return Build(job, HeadlessServiceName(job), std::nullopt); }

}  // namespace trainyard::control
