#include "operator/plan/actions.h"

#include <iterator>
#include <utility>

namespace trainyard::control {

bool Plan::Empty() const {
  return !status && adopt.empty() && relabel.empty() && release.empty() && deletions.empty() && end_group.empty() && !update_config &&
         ensure.empty() && creations.empty() && serving == ServingActions{} && !delete_job && events.empty();
}

void Plan::Add(Plan part) {
  const auto append = [](auto& list, auto& more) {
    list.insert(list.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
  };
  append(adopt, part.adopt);
  append(relabel, part.relabel);
  append(release, part.release);
  append(deletions, part.deletions);
  append(end_group, part.end_group);
  append(ensure, part.ensure);
  append(creations, part.creations);
  append(serving.creations, part.serving.creations);
  append(events, part.events);
  withheld |= part.withheld;
  update_config |= part.update_config;
  serving.update |= part.serving.update;
  serving.restores |= part.serving.restores;
  delete_job |= part.delete_job;
  if (part.requeue_at) RequeueAt(*part.requeue_at);
}

void Plan::AddEvent(bool warning, std::string_view reason, std::string note) {
  events.push_back({warning, std::string(reason), std::move(note)});
}

void Plan::RequeueAt(absl::Time time) {
  if (!requeue_at || time < *requeue_at) requeue_at = time;
}

}  // namespace trainyard::control
