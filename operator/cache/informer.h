// Informer<T>: a Store<T> kept current by reflectors, and handlers told of each change.
//
//   Informer<Pod> pods(client, clock, kPods, {.label_selector = "trainyard.dev/job-name"}, PodFromJson);
//   pods.AddHandler([&](const auto& before, const auto& after) { queue.Add(OwnerKey(*(after ? after : before))); });
//   pods.Start();  …  pods.lister().ByOwner(job.uid)
#pragma once

#include <fmt/format.h>

#include <atomic>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "operator/base/clock.h"
#include "operator/base/log.h"
#include "operator/base/log_budget.h"
#include "operator/base/mutex.h"
#include "operator/cache/identity.h"
#include "operator/cache/reflector.h"
#include "operator/cache/store.h"
#include "operator/kube/client.h"
#include "operator/kube/unreadable.h"

namespace trainyard::control {

struct InformerOptions {
  std::vector<std::string> namespaces{};  // empty: all
  ReflectorOptions reflector{};           // its ns is not read
  // Told of each object that cannot be read, from the reflectors' threads.
  std::function<void(const Resource&, const Unreadable&)> on_unreadable{};
};

// Thread-safe except AddHandler (before Start). Handlers run on the reflectors' threads, one change
// of an object after the other, and must be quick: put a key into a queue.
//
// Own writes: hand what Create, Update, UpdateStatus or Patch returned to ObserveWrite, and a
// successful delete to ObserveDelete. The lister then shows it at once, so that the next reconcile
// neither repeats the write nor collides with it. Handlers are not told of it, neither then nor
// when the watch brings it: the writer knows.
template <typename T>
class Informer {
 public:
  // May refuse an object only when it is beyond reading: it is then reported, and the store keeps
  // what it had.
  using Decode = std::function<absl::StatusOr<T>(const nlohmann::json&)>;
  // before null: added; after null: deleted (before is the last known).
  using Handler = std::function<void(const std::shared_ptr<const T>& before, const std::shared_ptr<const T>& after)>;

  Informer(Client& client, Clock& clock, const Resource& resource, InformerOptions options, Decode decode)
      : resource_(resource), on_unreadable_(options.on_unreadable), decode_(std::move(decode)), log_budget_(clock) {
    if (options.namespaces.empty()) options.namespaces.emplace_back();
    for (const std::string& ns : options.namespaces) {
      ReflectorOptions reflector = options.reflector;
      reflector.ns = ns;
      scopes_.push_back(std::make_unique<Scope>(*this, ns, client, clock, resource, std::move(reflector)));
    }
  }
  ~Informer() { Stop(); }
  Informer(const Informer&) = delete;
  Informer& operator=(const Informer&) = delete;

  void AddHandler(Handler handler) { handlers_.push_back(std::move(handler)); }
  void Start() {
    for (auto& scope : scopes_) scope->reflector.Start();
  }
  void Stop() {
    for (auto& scope : scopes_) scope->reflector.Stop();
  }
  // The first list of every namespace is in the store.
  bool HasSynced() const {
    for (const auto& scope : scopes_) {
      if (!scope->synced.load(std::memory_order_acquire)) return false;
    }
    return true;
  }
  // OK, or which of its reflectors is not well.
  absl::Status Health() const {
    for (const auto& scope : scopes_) {
      if (absl::Status status = scope->reflector.Health(); !status.ok()) return status;
    }
    return absl::OkStatus();
  }
  const Lister<T>& lister() const { return store_; }

  void ObserveWrite(const nlohmann::json& object) {
    auto identity = IdentityOf(object);
    if (!identity.ok()) return;
    Scope* scope = ScopeOf(identity->key);
    // An object that the watch has already passed may have been changed or deleted since: the watch
    // knows better.
    if (scope == nullptr) return;
    auto value = decode_(object);
    if (!value.ok()) return;
    MutexLock lock(scope->mutex);
    if (identity->resource_version <= scope->seen_version) return;
    store_.Put(*identity, std::make_shared<const T>(*std::move(value)));
  }
  void ObserveDelete(std::string_view key, std::string_view uid) { store_.Remove(key, uid); }

 private:
  // One reflector and what it alone knows.
  struct Scope : ReflectorSink {
    Scope(Informer& informer, std::string ns, Client& client, Clock& clock, const Resource& resource, ReflectorOptions options)
        : informer(informer), ns(std::move(ns)), reflector(client, clock, resource, std::move(options), *this) {}

    void BeginReplace() override {
      listed.clear();
      listing = true;
    }

    void ReplaceItem(nlohmann::json&& object) override {
      auto identity = IdentityOf(object);
      if (identity.ok()) listed.insert(identity->key);
      informer.Put(*this, identity, object);
    }

    void Skip(const Unreadable& object) override {
      if (listing) listed.insert(object.Key());
      informer.Report(object);
    }

    void EndReplace(int64_t list_version) override {
      const std::string prefix = ns + "/";
      const auto keep = [&](const std::string& key) { return listed.contains(key) || (!ns.empty() && !key.starts_with(prefix)); };
      std::vector<typename Store<T>::Change> removed;
      {
        MutexLock lock(mutex);
        seen_version = std::max(seen_version, list_version);
        removed = informer.store_.RemoveUnless(keep, list_version);
      }
      for (const auto& change : removed) informer.Tell(change);
      std::unordered_set<std::string>().swap(listed);
      listing = false;
      synced.store(true, std::memory_order_release);
    }

    void Apply(WatchEventType type, nlohmann::json&& object) override {
      auto identity = IdentityOf(object);
      if (type == WatchEventType::kDeleted && identity.ok()) {
        typename Store<T>::Change change;
        {
          MutexLock lock(mutex);
          seen_version = std::max(seen_version, identity->resource_version);
          change = informer.store_.Remove(identity->key, identity->uid);
        }
        if (change.before != nullptr) informer.Tell(change);
        return;
      }
      if (type == WatchEventType::kBookmark) {
        MutexLock lock(mutex);
        if (identity.ok()) seen_version = std::max(seen_version, identity->resource_version);
        return;
      }
      informer.Put(*this, identity, object);
    }

    Informer& informer;
    const std::string ns;
    std::atomic<bool> synced = false;
    std::unordered_set<std::string> listed;
    bool listing = false;
    Mutex mutex;
    int64_t seen_version ABSL_GUARDED_BY(mutex) = 0;  // the watch is past it
    Reflector reflector;                              // last: its thread uses the rest
  };

  void Put(Scope& scope, const absl::StatusOr<Identity>& identity, const nlohmann::json& object) {
    absl::Status problem = identity.status();
    if (identity.ok()) {
      auto value = decode_(object);
      problem = value.status();
      if (value.ok()) {
        typename Store<T>::Change change;
        {
          MutexLock lock(scope.mutex);
          scope.seen_version = std::max(scope.seen_version, identity->resource_version);
          change = store_.Put(*identity, std::make_shared<const T>(*std::move(value)));
        }
        if (!change.same_version) Tell(change);
        return;
      }
    }
    Report(IdentifyObject(object.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace), std::string(problem.message())));
  }

  // One object that cannot be read is news, ten thousand are a number.
  void Report(const Unreadable& object) {
    if (on_unreadable_) on_unreadable_(resource_, object);
    const std::optional<int> held_back = log_budget_.Take();
    if (!held_back) return;
    LogWarning("{} {}: cannot be read and is left out: {}{}", resource_.plural, object.name.empty() ? "(no name)" : object.Key(),
               object.problem, *held_back == 0 ? "" : fmt::format(" (and {} more before it)", *held_back));
  }

  void Tell(const typename Store<T>::Change& change) {
    for (const Handler& handler : handlers_) handler(change.before, change.after);
  }

  Scope* ScopeOf(std::string_view key) {
    for (auto& scope : scopes_) {
      if (scope->ns.empty() || key.starts_with(scope->ns + "/")) return scope.get();
    }
    return nullptr;
  }

  const Resource resource_;
  const std::function<void(const Resource&, const Unreadable&)> on_unreadable_;
  const Decode decode_;
  LogBudget log_budget_;
  std::vector<Handler> handlers_;
  Store<T> store_;
  std::vector<std::unique_ptr<Scope>> scopes_;
};

}  // namespace trainyard::control
