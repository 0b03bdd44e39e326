// Lanes that were opened and have not said who they are: each has until a deadline.
#pragma once

#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "trainer/transport/transport.h"

namespace trainyard::engine {

// Not thread-safe. Time is what its caller says it is.
class AwaitedHellos {
 public:
  explicit AwaitedHellos(absl::Duration deadline) : deadline_(deadline) {}

  void Opened(std::shared_ptr<Lane> lane, absl::Time now) {
    const Lane* const key = lane.get();
    lanes_[key] = {std::move(lane), now + deadline_};
  }
  // It said hello, or it is gone.
  void Forget(const Lane* lane) { lanes_.erase(lane); }
  // Those whose deadline has come, each once.
  std::vector<std::shared_ptr<Lane>> TakeLate(absl::Time now) {
    std::vector<std::shared_ptr<Lane>> late;
    std::erase_if(lanes_, [&](auto& entry) {
      if (entry.second.due > now) return false;
      late.push_back(std::move(entry.second.lane));
      return true;
    });
    return late;
  }

 private:
  struct Awaited {
    std::shared_ptr<Lane> lane;
    absl::Time due;
  };
  const absl::Duration deadline_;
  std::map<const Lane*, Awaited> lanes_;
};

}  // namespace trainyard::engine
