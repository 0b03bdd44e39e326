#include "trainer/base/thread_room.h"

#include <fmt/format.h>

#include <system_error>
#include <thread>
#include <vector>

#include "absl/synchronization/notification.h"

namespace trainyard::engine {

absl::Status CheckThreadRoom(int wanted) {
  absl::Notification end;
  std::vector<std::thread> threads;
  threads.reserve(wanted);
  absl::Status status;
  try {
    for (int i = 0; i < wanted; ++i) threads.emplace_back([&end] { end.WaitForNotification(); });
  } catch (const std::system_error& error) {
    status = absl::ResourceExhaustedError(fmt::format(
        "cannot start {} threads: after {} of them {}. Raise the limit of processes (ulimit -u, pids of the pod's cgroup) or of "
        "memory (ulimit -v)",
        wanted, threads.size(), error.code().message()));
  }
  end.Notify();
  for (std::thread& thread : threads) thread.join();
  return status;
}

}  // namespace trainyard::engine
