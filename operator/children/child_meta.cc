#include "operator/children/child_meta.h"

namespace trainyard::control {

using nlohmann::json;

json ChildLabelsJson(const TrainingJob& job, const std::optional<ReplicaId>& id) {
  json labels = {{kJobNameLabel, job.meta.name}, {kJobUidLabel, job.meta.uid}};
  if (id) {
    labels[std::string(kRoleLabel)] = Name(id->role);
    labels[std::string(kIndexLabel)] = std::to_string(id->index);
  }
  return labels;
}

json OwnerReferences(const TrainingJob& job) {
  return json::array({{{"apiVersion", kApiVersion},
                       {"kind", kKind},
                       {"name", job.meta.name},
                       {"uid", job.meta.uid},
                       {"controller", true},
                       {"blockOwnerDeletion", true}}});
}

json ChildMeta(const TrainingJob& job, std::string name, const std::optional<ReplicaId>& id) {
  return {{"name", std::move(name)},
          {"namespace", job.meta.name_space},
          {"labels", ChildLabelsJson(job, id)},
          {"ownerReferences", OwnerReferences(job)}};
}

}  // namespace trainyard::control
