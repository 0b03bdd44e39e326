#include "trainer/base/file_error.h"

#include <fmt/format.h>

#include <cerrno>
#include <string>
#include <system_error>

namespace trainyard::engine {

absl::Status FileError(int error, std::string_view action, std::string_view path) {
  std::string message = fmt::format("cannot {} {}: {}", action, path, std::generic_category().message(error));
  switch (error) {
    case ENOENT:
    case ENOTDIR:
      return absl::NotFoundError(message);
    case EACCES:
    case EPERM:
    case EROFS:
      return absl::PermissionDeniedError(message);
    case EEXIST:
      return absl::AlreadyExistsError(message);
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
    case EMFILE:
    case ENFILE:
      return absl::ResourceExhaustedError(message);
    case EIO:
    case ENXIO:
    case ESTALE:
    case EHOSTDOWN:
    case ENOTCONN:
    case EREMOTEIO:
    case ETIMEDOUT:
      return absl::UnavailableError(message);
    default:
      return absl::InternalError(message);
  }
}

bool MayPass(const absl::Status& status) { return absl::IsResourceExhausted(status) || absl::IsUnavailable(status); }

std::string_view NextStepFor(const absl::Status& status) {
  return absl::IsResourceExhausted(status) ? "make room there" : "mend the volume";
}

}  // namespace trainyard::engine
