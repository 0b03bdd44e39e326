// Store: the objects of one resource as we last saw them, by key and by controlling owner. Readers
// share immutable values.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "operator/base/mutex.h"
#include "operator/cache/identity.h"

namespace trainyard::control {

// A store as reconcilers see it. Thread-safe; a value never changes once handed out.
template <typename T>
class Lister {
 public:
  virtual ~Lister() = default;
  // Null when there is none.
  virtual std::shared_ptr<const T> Get(std::string_view key) const = 0;
  // In key order.
  virtual std::vector<std::shared_ptr<const T>> ByOwner(std::string_view controller_uid) const = 0;
  virtual std::shared_ptr<const T> AnyByOwner(std::string_view controller_uid) const = 0;  // null: it owns none
  virtual std::vector<std::shared_ptr<const T>> All() const = 0;                           // in no order
  virtual size_t Size() const = 0;
};

// T has its metadata, with the uid, in `meta`.
template <typename T>
class Store : public Lister<T> {
 public:
  struct Change {
    std::shared_ptr<const T> before;  // null: added
    std::shared_ptr<const T> after;   // null: deleted
    bool same_version = false;        // before and after are the same resourceVersion: nothing new
  };

  std::shared_ptr<const T> Get(std::string_view key) const override {
    MutexLock lock(mutex_);
    const auto it = entries_.find(key);
    return it == entries_.end() ? nullptr : it->second.value;
  }

  std::vector<std::shared_ptr<const T>> ByOwner(std::string_view controller_uid) const override {
    std::vector<std::shared_ptr<const T>> values;
    MutexLock lock(mutex_);
    const auto it = by_owner_.find(controller_uid);
    if (it == by_owner_.end()) return values;
    values.reserve(it->second.size());
    for (const Entry* entry : it->second) values.push_back(entry->value);
    return values;
  }

  std::shared_ptr<const T> AnyByOwner(std::string_view controller_uid) const override {
    MutexLock lock(mutex_);
    const auto it = by_owner_.find(controller_uid);
    return it == by_owner_.end() || it->second.empty() ? nullptr : (*it->second.begin())->value;
  }

  std::vector<std::shared_ptr<const T>> All() const override {
    std::vector<std::shared_ptr<const T>> values;
    MutexLock lock(mutex_);
    values.reserve(entries_.size());
    for (const auto& [key, entry] : entries_) values.push_back(entry.value);
    return values;
  }

  size_t Size() const override {
    MutexLock lock(mutex_);
    return entries_.size();
  }

  // Keeps the newer of the stored and the given value: a stale value changes nothing and counts as
  // the same version.
  Change Put(const Identity& identity, std::shared_ptr<const T> value) {
    MutexLock lock(mutex_);
    const auto it = entries_.find(identity.key);
    if (it == entries_.end()) {
      Insert(identity, value);
      return {nullptr, std::move(value), false};
    }
    Entry& entry = it->second;
    if (identity.resource_version <= entry.resource_version) return {entry.value, entry.value, true};
    Change change{std::move(entry.value), value, false};
    if (identity.controller_uid == OwnerOf(entry)) {
      entry.resource_version = identity.resource_version;
      entry.value = std::move(value);
    } else {
      Erase(it);
      Insert(identity, std::move(value));
    }
    return change;
  }

  // Removes the key if it holds `uid` (empty: whatever it holds).
  Change Remove(std::string_view key, std::string_view uid) {
    MutexLock lock(mutex_);
    const auto it = entries_.find(key);
    if (it == entries_.end() || (!uid.empty() && it->second.value->meta.uid != uid)) return {};
    Change change{std::move(it->second.value), nullptr, false};
    Erase(it);
    return change;
  }

  // Removes what `keep` refuses and is not newer than `up_to`; returns what was removed.
  std::vector<Change> RemoveUnless(const std::function<bool(const std::string& key)>& keep, int64_t up_to) {
    std::vector<Change> removed;
    MutexLock lock(mutex_);
    for (auto it = entries_.begin(); it != entries_.end();) {
      const auto next = std::next(it);
      if (it->second.resource_version <= up_to && !keep(it->first)) {
        removed.push_back({std::move(it->second.value), nullptr, false});
        Erase(it);
      }
      it = next;
    }
    return removed;
  }

 private:
  // Texts are those of the value and of the maps' nodes: there are thousands of entries.
  struct Entry {
    int64_t resource_version = 0;
    std::shared_ptr<const T> value;
    const std::string* key = nullptr;    // of the node in entries_
    const std::string* owner = nullptr;  // the controlling owner's uid, of the node in by_owner_; null: an orphan
  };
  struct ByKey {
    bool operator()(const Entry* a, const Entry* b) const { return *a->key < *b->key; }
  };
  struct Hash {
    using is_transparent = void;
    size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
  };
  template <typename Value>
  using ByText = std::unordered_map<std::string, Value, Hash, std::equal_to<>>;
  using Entries = ByText<Entry>;

  void Insert(const Identity& identity, std::shared_ptr<const T> value) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const auto it = entries_.emplace(identity.key, Entry{identity.resource_version, std::move(value)}).first;
    it->second.key = &it->first;
    if (identity.controller_uid.empty()) return;
    const auto owner = by_owner_.try_emplace(identity.controller_uid).first;
    it->second.owner = &owner->first;
    owner->second.insert(&it->second);
  }

  static std::string_view OwnerOf(const Entry& entry) { return entry.owner == nullptr ? std::string_view() : *entry.owner; }

  void Erase(typename Entries::iterator it) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (it->second.owner != nullptr) {
      const auto owner = by_owner_.find(*it->second.owner);
      owner->second.erase(&it->second);
      if (owner->second.empty()) by_owner_.erase(owner);
    }
    entries_.erase(it);
  }

  mutable Mutex mutex_;
  Entries entries_ ABSL_GUARDED_BY(mutex_);
  ByText<std::set<const Entry*, ByKey>> by_owner_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace trainyard::control
