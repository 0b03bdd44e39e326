#include "operator/trainingjob/job_events.h"

namespace trainyard::control {

void RecordEvent(EventRecorder& events, const TrainingJob& job, const PlannedEvent& event) {
  const ObjectReference about{std::string(kApiVersion), std::string(kKind), job.meta.name_space, job.meta.name, job.meta.uid,
                              job.meta.resource_version};
  events.Record(about, event.warning ? EventType::kWarning : EventType::kNormal, event.reason, "Reconcile", event.note);
}

}  // namespace trainyard::control
