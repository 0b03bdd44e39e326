// The cluster's other actors and the tests themselves, as they use the fake API server.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <set>
#include <utility>

#include "tests/fake_apiserver/answers.h"
#include "tests/fake_apiserver/fake_api_server.h"

namespace trainyard::control {

using Json = nlohmann::json;

Json FakeApiServer::Put(const Resource& resource, Json object) {
  object["apiVersion"] = resource.ApiVersion();
  object["kind"] = resource.kind;
  if (resource.namespaced && !object["metadata"].contains("namespace")) object["metadata"]["namespace"] = "default";
  MutexLock lock(mutex_);
  Collection& collection = CollectionOf(fmt::format("{}/{}", resource.group, resource.plural));
  const std::string object_key = KeyOf(object);
  const auto it = collection.objects.find(object_key);
  if (it != collection.objects.end()) {
    for (const char* kept : {"uid", "creationTimestamp", "generation"}) object["metadata"][kept] = it->second["metadata"][kept];
  }
  return Commit(collection, object_key, std::move(object));
}

Json FakeApiServer::Edit(const Resource& resource, std::string_view ns, std::string_view name, const Json& patch) {
  MutexLock lock(mutex_);
  Collection& collection = CollectionOf(fmt::format("{}/{}", resource.group, resource.plural));
  const auto it = collection.objects.find(ObjectKey(ns, name));
  if (it == collection.objects.end()) return Json();
  Json object = it->second;
  object.merge_patch(patch);
  return Commit(collection, ObjectKey(ns, name), std::move(object));
}

std::optional<Json> FakeApiServer::Find(const Resource& resource, std::string_view ns, std::string_view name) {
  MutexLock lock(mutex_);
  const Collection& collection = CollectionOf(fmt::format("{}/{}", resource.group, resource.plural));
  const auto it = collection.objects.find(ObjectKey(ns, name));
  return it == collection.objects.end() ? std::nullopt : std::optional(it->second);
}

std::vector<Json> FakeApiServer::All(const Resource& resource, std::string_view ns) {
  MutexLock lock(mutex_);
  std::vector<Json> all;
  for (const auto& [key, object] : CollectionOf(fmt::format("{}/{}", resource.group, resource.plural)).objects) {
    if (ns.empty() || object["metadata"].value("namespace", "") == ns) all.push_back(object);
  }
  return all;
}

bool FakeApiServer::Remove(const Resource& resource, std::string_view ns, std::string_view name) {
  MutexLock lock(mutex_);
  Collection& collection = CollectionOf(fmt::format("{}/{}", resource.group, resource.plural));
  if (!collection.objects.contains(ObjectKey(ns, name))) return false;
  Drop(collection, ObjectKey(ns, name));
  return true;
}

void FakeApiServer::CollectGarbage() {
  MutexLock lock(mutex_);
  while (true) {
    std::set<std::string> uids;
    for (const auto& [name, collection] : collections_) {
      for (const auto& [key, object] : collection.objects) uids.insert(object["metadata"].value("uid", ""));
    }
    bool dropped = false;
    for (auto& [name, collection] : collections_) {
      std::vector<std::string> orphans;
      for (const auto& [key, object] : collection.objects) {
        const Json owners = object["metadata"].value("ownerReferences", Json::array());
        const bool orphan = !owners.empty() && std::none_of(owners.begin(), owners.end(),
                                                            [&](const Json& owner) { return uids.contains(owner.value("uid", "")); });
        if (orphan) orphans.push_back(key);
      }
      for (const std::string& key : orphans) Drop(collection, key);
      dropped = dropped || !orphans.empty();
    }
    if (!dropped) return;
  }
}

void FakeApiServer::Compact() {
  MutexLock lock(mutex_);
  ++version_;
  for (auto& [name, collection] : collections_) {
    collection.compacted = version_;
    collection.history.clear();
  }
  changed_.NotifyAll();
}

void FakeApiServer::SendBookmarks() {
  MutexLock lock(mutex_);
  ++bookmark_;
  changed_.NotifyAll();
}

void FakeApiServer::Inject(Fault fault) {
  MutexLock lock(mutex_);
  faults_.push_back(std::move(fault));
  changed_.NotifyAll();
}

void FakeApiServer::ClearFaults() {
  MutexLock lock(mutex_);
  faults_.clear();
}

void FakeApiServer::CrashAtWrite(int n, CrashPoint point) {
  MutexLock lock(mutex_);
  crash_after_writes_ = n;
  crash_point_ = point;
}

bool FakeApiServer::Crashed() {
  MutexLock lock(mutex_);
  return crashed_;
}

void FakeApiServer::Revive() {
  MutexLock lock(mutex_);
  crashed_ = false;
  crash_after_writes_ = -1;
}

std::vector<ApiCall> FakeApiServer::Calls() {
  MutexLock lock(mutex_);
  return calls_;
}

int FakeApiServer::Writes() {
  MutexLock lock(mutex_);
  return static_cast<int>(
      std::count_if(calls_.begin(), calls_.end(), [](const ApiCall& call) { return call.IsWrite() && call.code / 100 == 2; }));
}

void FakeApiServer::ForgetCalls() {
  MutexLock lock(mutex_);
  calls_.clear();
}

bool FakeApiServer::Await(const std::function<bool()>& condition) {
  const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (!condition()) {
    if (std::chrono::steady_clock::now() >= give_up) return false;
    MutexLock lock(mutex_);
    changed_.WaitFor(mutex_, std::chrono::milliseconds(5));
  }
  return true;
}

int FakeApiServer::OpenWatches() {
  MutexLock lock(mutex_);
  return open_watches_;
}

}  // namespace trainyard::control
