#include "trainer/base/file_error.h"

#include <fmt/format.h>

#include <cerrno>
#include <string>

#include "absl/strings/match.h"
#include "trainer/base/error_text.h"

namespace trainyard::engine {

absl::Status FileError(int error, std::string_view action, std::string_view path) {
  std::string message = fmt::format("cannot {} {}: {}", action, path, ErrorText(error));
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
  if (!absl::IsResourceExhausted(status)) return "mend the volume";
  const bool files = absl::StrContains(status.message(), ErrorText(EMFILE)) || absl::StrContains(status.message(), ErrorText(ENFILE));
  return files ? "raise that limit" : "make room there";
}

}  // namespace trainyard::engine
