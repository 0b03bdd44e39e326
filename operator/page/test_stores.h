// Stores of jobs and pods as informers fill them.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "operator/cache/store.h"
#include "operator/children/test_makers.h"

namespace trainyard::control {

class TestStores {
 public:
  // Later puts are newer.
  void Put(MakeJob maker) {
    nlohmann::json object = maker.Set("/metadata/resourceVersion", std::to_string(++version_)).Object();
    jobs.Put(*IdentityOf(object), std::make_shared<const TrainingJob>(*TrainingJob::FromJson(object)));
  }
  void Put(const MakePod& maker) {
    const Pod pod = maker.Build();
    pods.Put({.key = pod.meta.Key(), .uid = pod.meta.uid, .controller_uid = pod.meta.controller.uid, .resource_version = ++version_},
             std::make_shared<const Pod>(pod));
  }

  Store<TrainingJob> jobs;
  Store<Pod> pods;

 private:
  int64_t version_ = 100;
};

}  // namespace trainyard::control
