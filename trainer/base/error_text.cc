#include "trainer/base/error_text.h"

#include <fmt/format.h>

#include <cerrno>
#include <system_error>

namespace trainyard::engine {

std::string ErrorText(int error) {
  std::string text = std::generic_category().message(error);
  if (error == EMFILE) text += ", see ulimit -n";
  if (error == ENFILE) text += ", see sysctl fs.file-max";
  return text;
}

absl::Status ErrnoStatus(int error, std::string_view what) {
  return {absl::ErrnoToStatusCode(error), fmt::format("{}: {}", what, ErrorText(error))};
}

}  // namespace trainyard::engine
