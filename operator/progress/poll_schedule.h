// PollSchedule: which chief is asked next. Pure: no clock, no threads.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "absl/time/time.h"

namespace trainyard::control {

// Keys are "namespace/name", each with the time at which it is due. Fair over namespaces: among
// those with a due key, the namespace with the fewest requests under way comes next. Of equals, the
// namespace that has waited longest comes next. No namespace has more than `max_of_one` requests
// under way. Within a namespace the earliest key is first. So keys that cost much time cost it to
// their own namespace only. Not thread-safe.
class PollSchedule {
 public:
  explicit PollSchedule(int max_of_one) : max_of_one_(max_of_one) {}

  // Adds the key, or moves it.
  void Set(const std::string& key, absl::Duration due);
  void Remove(const std::string& key);
  // The next key, which is in the schedule no more until Set; each needs one Done. Else nothing,
  // and `next_due` is when there may be one without a Done or Set in between.
  std::optional<std::string> Take(absl::Duration now, absl::Duration& next_due);
  void Done(const std::string& key);

 private:
  struct Namespace {
    std::set<std::pair<absl::Duration, std::string>> due;
    int under_way = 0;
    uint64_t served = 0;  // when last, in turns
  };
  Namespace& Of(const std::string& key);
  void Tidy(const std::string& key);

  const int max_of_one_;
  std::map<std::string, Namespace> namespaces_;
  std::map<std::string, absl::Duration> due_of_;
  uint64_t turns_ = 0;
};

}  // namespace trainyard::control
