#include "tests/fake_apiserver/fake_api_server.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "operator/base/timestamp.h"
#include "tests/fake_apiserver/answers.h"
#include "tests/fake_apiserver/target.h"

namespace trainyard::control {

using Json = nlohmann::json;

namespace {

bool HasStatusSubresource(const std::string& plural) { return plural == "trainingjobs" || plural == "pods" || plural == "services"; }

// A pod that a kubelet has is first asked to end; everything else goes at once.
bool DeletesGracefully(const Target& target, const Json& object, const Json& options) {
  if (target.plural != "pods" || options.value("gracePeriodSeconds", -1) == 0) return false;
  const std::string phase = object.value("/status/phase"_json_pointer, "");
  return phase != "Succeeded" && phase != "Failed" && !object.value("/spec/nodeName"_json_pointer, "").empty();
}

bool IsWatchFault(Fault::Kind kind) {
  return kind == Fault::Kind::kDropWatch || kind == Fault::Kind::kStallWatch || kind == Fault::Kind::kGarbageWatch ||
         kind == Fault::Kind::kExpireWatch;
}

}  // namespace

FakeApiServer::FakeApiServer(Clock& clock) : clock_(clock) {}
FakeApiServer::~FakeApiServer() = default;

FakeApiServer::Collection& FakeApiServer::CollectionOf(const std::string& group_and_plural) { return collections_[group_and_plural]; }

std::optional<Fault> FakeApiServer::FaultFor(const Target& target, bool of_open_watch) {
  for (auto it = faults_.begin(); it != faults_.end(); ++it) {
    if (!it->verb.empty() && it->verb != target.verb) continue;
    if (!it->resource.empty() && it->resource != target.Resource()) continue;
    if (!it->name.empty() && it->name != target.name) continue;
    if (IsWatchFault(it->kind) != of_open_watch || (of_open_watch && target.verb != "watch")) continue;
    if (it->skip > 0) {
      --it->skip;
      continue;
    }
    std::optional<Fault> fault(*it);
    if (--it->times <= 0) faults_.erase(it);
    return fault;
  }
  return std::nullopt;
}

absl::StatusOr<HttpResponse> FakeApiServer::Send(const HttpRequest& request) {
  absl::StatusOr<HttpResponse> response = Respond(request);
  if (!response.ok() || request.sink == nullptr || response->code / 100 != 2) return response;
  request.sink->Begin();
  if (!request.sink->Take(response->body)) return absl::CancelledError("the reader left");
  response->body.clear();
  return response;
}

absl::StatusOr<HttpResponse> FakeApiServer::Respond(const HttpRequest& request) {
  const Target target = ParseTarget(request);
  MutexLock lock(mutex_);
  if (crashed_) return Broken();
  ApiCall call{.verb = target.verb, .resource = target.Resource(), .ns = target.ns, .name = target.name};
  const std::optional<Fault> fault = FaultFor(target, /*of_open_watch=*/false);
  const bool crash = call.IsWrite() && crash_after_writes_ == 0;
  if (call.IsWrite() && crash_after_writes_ >= 0) --crash_after_writes_;
  if (crash) crashed_ = true;
  const bool refused = (fault.has_value() && fault->kind == Fault::Kind::kRefuse) || (crash && crash_point_ == CrashPoint::kBefore);
  if (refused) {
    calls_.push_back(call);
    changed_.NotifyAll();
    return Broken();
  }
  HttpResponse response;
  if (fault.has_value() && fault->kind == Fault::Kind::kAnswer) {
    response = Refusal(fault->code, fault->reason, fault->message);
    response.retry_after = fault->retry_after;
  } else {
    response = Serve(request, target);
  }
  const bool lost = crash || (fault.has_value() && fault->kind == Fault::Kind::kLoseAnswer);
  call.code = response.code;
  if (call.name.empty() && call.verb == "create") call.name = Json::parse(response.body).value("/metadata/name"_json_pointer, "");
  calls_.push_back(call);
  changed_.NotifyAll();
  if (lost) return Broken();
  if (fault.has_value() && fault->kind == Fault::Kind::kHalfAnswer) response.body.resize(response.body.size() / 2);
  return response;
}

HttpResponse FakeApiServer::Serve(const HttpRequest& request, const Target& target) {
  if (target.verb.empty()) return Refusal(404, "NotFound", "the server could not find the requested resource");
  Collection& collection = CollectionOf(target.collection);
  if (target.verb == "list") return List(collection, target);
  if (target.verb == "get") {
    const auto it = collection.objects.find(target.Key());
    return it == collection.objects.end() ? NotFound(target) : Answer(200, it->second);
  }
  const Json body = Json::parse(request.body.empty() ? "{}" : request.body, nullptr, false);
  if (!body.is_object() && !body.is_array()) return Refusal(400, "BadRequest", "the body is no JSON");
  if (target.verb == "create") return Create(collection, target, body);
  if (target.verb == "update") return Replace(collection, target, body);
  if (target.verb == "patch") return Patch(collection, target, request.content_type, body);
  return Delete(collection, target, body);
}

HttpResponse FakeApiServer::List(Collection& collection, const Target& target) {
  const size_t limit = static_cast<size_t>(target.Number("limit"));
  const std::string token = target.Parameter("continue");
  int64_t version = version_;
  std::string after;
  if (!token.empty()) {
    const size_t colon = token.find(':');
    version = NumberOf(token.substr(0, colon));
    after = token.substr(colon + 1);
    if (version < collection.compacted) return Refusal(410, "Expired", "the continue token has expired");
  }
  Json items = Json::array();
  std::string next;
  for (auto it = collection.objects.upper_bound(after); it != collection.objects.end(); ++it) {
    if (!Selected(target, it->second)) continue;
    if (limit > 0 && items.size() == limit) {
      next = fmt::format("{}:{}", version, KeyOf(items.back()));
      break;
    }
    items.push_back(it->second);
  }
  Json metadata = {{"resourceVersion", std::to_string(version)}};
  if (!next.empty()) metadata["continue"] = next;
  return Answer(200, {{"kind", "List"}, {"apiVersion", target.api_version}, {"metadata", metadata}, {"items", items}});
}

HttpResponse FakeApiServer::Create(Collection& collection, const Target& target, Json object) {
  Json& metadata = object["metadata"];
  metadata["namespace"] = target.ns;
  if (metadata.value("name", "").empty()) {
    if (metadata.value("generateName", "").empty()) return Refusal(422, "Invalid", "metadata.name: Required value");
    metadata["name"] = fmt::format("{}{:05}", metadata.value("generateName", ""), ++uids_);
  }
  const std::string key = KeyOf(object);
  if (collection.objects.contains(key)) {
    return Refusal(409, "AlreadyExists", fmt::format("{} \"{}\" already exists", target.plural, metadata.value("name", "")));
  }
  if (HasStatusSubresource(target.plural)) object.erase("status");
  if (target.plural == "pods") object["status"] = {{"phase", "Pending"}};
  return Answer(201, Commit(collection, key, std::move(object)));
}

HttpResponse FakeApiServer::Replace(Collection& collection, const Target& target, Json object) {
  const auto it = collection.objects.find(target.Key());
  if (it == collection.objects.end()) return NotFound(target);
  const Json& stored = it->second;
  const Json& metadata = object["metadata"];
  const std::string version = metadata.value("resourceVersion", "");
  const std::string uid = metadata.value("uid", "");
  if ((!version.empty() && version != stored["metadata"].value("resourceVersion", "")) ||
      (!uid.empty() && uid != stored["metadata"].value("uid", ""))) {
    return Refusal(
        409, "Conflict",
        fmt::format("Operation cannot be fulfilled on {} \"{}\": the object has been modified; please apply your changes to the latest "
                    "version and try again",
                    target.plural, target.name));
  }
  if (target.subresource == "status") {
    Json merged = stored;
    merged["status"] = object.value("status", Json::object());
    object = std::move(merged);
  } else if (HasStatusSubresource(target.plural)) {
    object.erase("status");
    if (stored.contains("status")) object["status"] = stored["status"];
  }
  for (const char* kept :
       {"uid", "creationTimestamp", "generation", "deletionTimestamp", "deletionGracePeriodSeconds", "namespace", "name"}) {
    object["metadata"].erase(kept);
    if (stored["metadata"].contains(kept)) object["metadata"][kept] = stored["metadata"][kept];
  }
  return Answer(200, Commit(collection, target.Key(), std::move(object)));
}

namespace {

// As a strategic merge patch does: by uid, and one with "$patch": "delete" goes.
void MergeOwners(Json& metadata, const Json& patch) {
  Json owners = metadata.value("ownerReferences", Json::array());
  for (const Json& owner : patch) {
    const auto same = std::find_if(owners.begin(), owners.end(), [&](const Json& other) { return other.at("uid") == owner.at("uid"); });
    const bool goes = owner.value("$patch", "") == "delete";
    if (same != owners.end() && goes) {
      owners.erase(same);
    } else if (same != owners.end()) {
      same->merge_patch(owner);
    } else if (!goes) {
      owners.push_back(owner);
    }
  }
  metadata["ownerReferences"] = std::move(owners);
}

void RemoveFinalizers(Json& metadata, const Json& goes) {
  if (goes.empty() || !metadata.contains("finalizers")) return;
  Json kept = Json::array();
  for (const Json& finalizer : metadata["finalizers"]) {
    if (std::find(goes.begin(), goes.end(), finalizer) == goes.end()) kept.push_back(finalizer);
  }
  metadata["finalizers"] = std::move(kept);
}

}  // namespace

HttpResponse FakeApiServer::Patch(Collection& collection, const Target& target, const std::string& type, const Json& patch) {
  const auto it = collection.objects.find(target.Key());
  if (it == collection.objects.end()) {
    return type == "application/apply-patch+yaml" ? Create(collection, target, patch) : NotFound(target);
  }
  Json object = it->second;
  object["metadata"].erase("resourceVersion");  // a patch without one is unconditional
  if (type == "application/json-patch+json") {
    try {
      object = object.patch(patch);
    } catch (const Json::exception& error) {
      return Refusal(422, "Invalid", error.what());
    }
  } else if (type == "application/strategic-merge-patch+json") {
    Json plain = patch;
    const Json owners = plain["metadata"].value("ownerReferences", Json::array());
    plain["metadata"].erase("ownerReferences");
    const Json goes = plain["metadata"].value("$deleteFromPrimitiveList/finalizers", Json::array());
    plain["metadata"].erase("$deleteFromPrimitiveList/finalizers");
    object.merge_patch(plain);
    RemoveFinalizers(object["metadata"], goes);
    MergeOwners(object["metadata"], owners);
  } else {
    object.merge_patch(patch);
  }
  return Replace(collection, target, std::move(object));
}

HttpResponse FakeApiServer::Delete(Collection& collection, const Target& target, const Json& options) {
  const auto it = collection.objects.find(target.Key());
  if (it == collection.objects.end()) return NotFound(target);
  Json object = it->second;
  const Json wanted = options.value("preconditions", Json::object());
  for (const char* field : {"uid", "resourceVersion"}) {
    if (wanted.contains(field) && wanted[field] != object["metadata"][field]) {
      return Refusal(409, "Conflict",
                     fmt::format("Precondition failed: {} in precondition: {}, in object meta: {}", field, wanted[field].dump(),
                                 object["metadata"][field].dump()));
    }
  }
  const bool graceful = DeletesGracefully(target, object, options);
  if (graceful || !object["metadata"].value("finalizers", Json::array()).empty()) {
    if (!object["metadata"].contains("deletionTimestamp")) {
      object["metadata"]["deletionTimestamp"] = FormatTimestamp(clock_.Now());
      object["metadata"]["deletionGracePeriodSeconds"] = graceful ? options.value("gracePeriodSeconds", 30) : 0;
      object = Commit(collection, target.Key(), std::move(object));
    }
    return Answer(200, object);
  }
  Drop(collection, target.Key());
  return Answer(200, {{"kind", "Status"}, {"apiVersion", "v1"}, {"status", "Success"}});
}

Json FakeApiServer::Commit(Collection& collection, const std::string& key, Json object) {
  const auto it = collection.objects.find(key);
  Json before = it == collection.objects.end() ? Json() : it->second;
  Json& metadata = object["metadata"];
  if (before.is_null()) {
    metadata["uid"] = fmt::format("00000000-0000-4000-8000-{:012}", ++uids_);
    if (!metadata.contains("creationTimestamp")) metadata["creationTimestamp"] = FormatTimestamp(clock_.Now());
    metadata["generation"] = 1;
  } else {
    metadata["resourceVersion"] = before["metadata"]["resourceVersion"];
    if (object == before) return before;  // nothing changed: no new version, as in Kubernetes
    if (object.value("spec", Json()) != before.value("spec", Json()))
      metadata["generation"] = before["metadata"].value("generation", 0) + 1;
  }
  metadata["resourceVersion"] = std::to_string(++version_);
  if (!before.is_null() && metadata.contains("deletionTimestamp") && metadata.value("finalizers", Json::array()).empty() &&
      !before["metadata"].value("finalizers", Json::array()).empty()) {
    Drop(collection, key);  // the last finalizer went
    return object;
  }
  collection.objects[key] = object;
  collection.history.push_back({version_, before.is_null() ? "ADDED" : "MODIFIED", object, std::move(before)});
  changed_.NotifyAll();
  return object;
}

void FakeApiServer::Drop(Collection& collection, const std::string& key) {
  const auto it = collection.objects.find(key);
  Json object = std::move(it->second);
  collection.objects.erase(it);
  Json before = object;
  object["metadata"]["resourceVersion"] = std::to_string(++version_);
  collection.history.push_back({version_, "DELETED", std::move(object), std::move(before)});
  changed_.NotifyAll();
}

}  // namespace trainyard::control
