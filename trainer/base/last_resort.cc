#include "trainer/base/last_resort.h"

#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <exception>
#include <new>
#include <string_view>
#include <system_error>

namespace trainyard::engine {
namespace {

std::atomic<int> exit_code_at_the_end = 1;  // a terminate handler takes no argument

// Without memory: nothing here allocates.
[[noreturn]] void End(std::string_view line) {
  while (!line.empty()) {
    const ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
    if (written <= 0) break;
    line.remove_prefix(static_cast<size_t>(written));
  }
  ::_exit(exit_code_at_the_end);
}

[[noreturn]] void OnTerminate() {
  if (const std::exception_ptr current = std::current_exception()) {
    try {
      std::rethrow_exception(current);
    } catch (const std::bad_alloc&) {
      End("E memory ran out: raise the memory limit of this process (resources.limits.memory of the pod, ulimit -v), or give it less to "
          "do\n");
    } catch (const std::system_error& error) {
      if (error.code() == std::errc::resource_unavailable_try_again) {
        End("E no more threads can be started: raise the limit of processes (ulimit -u, pids of the pod's cgroup) or of memory\n");
      }
    } catch (...) {  // any other exception ends the process as if this were not here
    }
  }
  std::abort();
}

}  // namespace

void InstallLastResort(int exit_code) {
  exit_code_at_the_end = exit_code;
  std::set_terminate(OnTerminate);
}

}  // namespace trainyard::engine
