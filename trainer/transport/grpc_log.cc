#include "trainer/transport/grpc_log.h"

#include <grpc/support/log.h>

#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "trainer/base/bounded_lines.h"
#include "trainer/base/clock.h"
#include "trainer/base/log.h"

namespace trainyard::engine {
namespace {

struct Lines {
  absl::Mutex mutex;
  BoundedLines lines ABSL_GUARDED_BY(mutex);
};

// gRPC's function has no argument of ours, and its threads may outlive main.
void TellError(gpr_log_func_args* said) {
  static auto& lines = *new Lines;
  if (said->severity != GPR_LOG_SEVERITY_ERROR) return;
  std::optional<std::string> line;
  {
    absl::MutexLock lock(&lines.mutex);
    line = lines.lines.Add("gRPC", said->message, RealClock().Now());
  }
  if (line) LogWarning("{}", *line);
}

}  // namespace

void BoundGrpcLog() { gpr_set_log_function(&TellError); }

}  // namespace trainyard::engine
