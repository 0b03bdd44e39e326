// One pull of parts from all servers, into the caller's memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "trainer/kvstore/placement.h"
#include "trainer/optim/training_state.h"
#include "trainer/transport/payload.h"

namespace trainyard::engine {

// Not thread-safe. `placement` must outlive it.
class PartPull {
 public:
  // The lowest and the highest step of the parts that came.
  struct Steps {
    int64_t lowest = -1;
    int64_t highest = -1;
  };

  PartPull(const Placement& placement, int servers, size_t slots) : parts_(placement.parts), slots_(slots), missing_(servers, 0) {}

  // Values are written into `into`, which must live until End.
  void Begin(TrainingState* into, bool with_slots);
  Steps End();
  // A server is asked (again): all of its parts are missing. False: it has none.
  bool Ask(int server);
  bool AskedOf(int server) const { return into_ != nullptr && missing_[server] > 0; }
  bool IsComplete(int server) const { return missing_[server] == 0; }
  bool with_slots() const { return with_slots_; }
  // Values of a part of `server` at `step`. Where they were not asked for, they are dropped.
  void Store(int server, int part, size_t slot, int64_t step, const Payload& values);

 private:
  const std::vector<Part>& parts_;
  const size_t slots_;
  TrainingState* into_ = nullptr;
  bool with_slots_ = false;
  std::vector<size_t> missing_;  // by server
  Steps steps_;
};

}  // namespace trainyard::engine
