#include "operator/plan/acceptance.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "operator/api/text.h"
#include "operator/children/labels.h"
#include "operator/children/pod_builder.h"
#include "operator/plan/conditions.h"

namespace trainyard::control {
namespace {

void WarnOfEphemeralOutput(const TrainingJob& job, std::vector<PlannedEvent>& events) {
  if (!OutputIsEphemeral(job)) return;
  events.push_back({true, "EphemeralOutput",
                    fmt::format("spec.storage.claimName is not set: output and checkpoints in {} end with each pod; name a "
                                "PersistentVolumeClaim to keep them",
                                OutputFolder(job))});
  if (job.spec.Replicas(Role::kEvaluator) == 0 || !job.spec.Find(Role::kEvaluator)->pod_template.empty()) return;
  events.push_back({true, "EvaluatorWithoutStorage",
                    "the evaluator finds no checkpoints: it shares no volume with the chief; set spec.storage.claimName"});
}

void WarnOfTemplates(const TrainingJob& job, std::vector<PlannedEvent>& events) {
  for (const Role role : kRoles) {
    const std::vector<std::string> clashes = TemplateClashes(job, role);
    if (clashes.empty()) continue;
    events.push_back({true, "TemplateWins",
                      fmt::format("spec.{}.template sets {}: the value of the template stays, and the operator injects none", Name(role),
                                  fmt::join(clashes, ", "))});
  }
}

}  // namespace

std::string DescribeChildren(const TrainingJob& job) {
  const int pods = job.spec.AllReplicas();
  const bool per_replica = job.spec.network.services == ServicesMode::kPerReplica;
  return fmt::format("{}, {} and ConfigMap {}", Counted(pods, "pod"), Counted(per_replica ? pods : 1, "service"), ConfigMapName(job));
}

bool Accepts(const TrainingJobStatus& before, const TrainingJobStatus& written) {
  return written.IsTrue(kCreated) && !before.IsTrue(kCreated);
}

std::vector<PlannedEvent> AcceptanceEvents(const TrainingJob& job) {
  std::vector<PlannedEvent> events = {{false, "Created", "creates " + DescribeChildren(job)}};
  WarnOfEphemeralOutput(job, events);
  WarnOfTemplates(job, events);
  return events;
}

}  // namespace trainyard::control
