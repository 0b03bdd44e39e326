#include "operator/program/unreadable_reports.h"

#include <fmt/format.h>

#include <utility>

namespace trainyard::control {

void UnreadableReports::Add(const Resource& resource, const Unreadable& object) {
  if (object.name.empty()) return;
  Report report{.about = {.api_version = resource.ApiVersion(),
                          .kind = std::string(resource.kind),
                          .ns = object.ns,
                          .name = object.name,
                          .uid = object.uid,
                          .resource_version = object.resource_version},
                .note = fmt::format("the operator cannot read this object and goes on with its older state: {}", object.problem)};
  MutexLock lock(mutex_);
  if (leads_) return tell_(report.about, report.note);
  const std::string key = fmt::format("{} {}", resource.plural, object.Key());
  if (held_.size() < kMost || held_.contains(key)) held_[key] = std::move(report);
}

void UnreadableReports::Lead() {
  MutexLock lock(mutex_);
  leads_ = true;
  for (const auto& [key, report] : held_) tell_(report.about, report.note);
  held_.clear();
}

}  // namespace trainyard::control
