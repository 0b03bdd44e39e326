// Runnables: the parts of a process, as a list: started from its first to its last, stopped from
// its last to its first.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace trainyard::control {

struct Runnable {
  std::string name;
  std::function<absl::Status()> start;
  std::function<void()> stop;
};

// Not thread-safe. A runnable stands after those that it needs, so that it is stopped before them.
class Runnables {
 public:
  explicit Runnables(std::vector<Runnable> list) : list_(std::move(list)) {}
  ~Runnables() { Stop(); }
  Runnables(const Runnables&) = delete;
  Runnables& operator=(const Runnables&) = delete;

  // The first error, with the name of its runnable; the runnables before it are stopped again.
  absl::Status Start();
  // Stops the started ones; a second call does nothing.
  void Stop();

 private:
  const std::vector<Runnable> list_;
  size_t started_ = 0;
};

}  // namespace trainyard::control
