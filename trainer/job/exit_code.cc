#include "trainer/job/exit_code.h"

namespace trainyard::engine {

int ExitCodeOf(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return 0;
    case absl::StatusCode::kDeadlineExceeded:
      return kPeerAbsentExitCode;
    case absl::StatusCode::kResourceExhausted:
      return kExhaustedExitCode;
    default:
      return 1;
  }
}

}  // namespace trainyard::engine
