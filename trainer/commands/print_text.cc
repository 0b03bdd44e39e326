#include "trainer/commands/print_text.h"

#include "trainer/cli/palette.h"
#include "trainer/cli/print.h"

namespace trainyard::engine {

int PrintText(const absl::StatusOr<std::string>& text) {
  if (text.ok()) Print(*text);
  return PrintStatus(text.status());
}

int PrintStatus(const absl::Status& status) {
  if (status.ok()) return 0;
  PrintError(std::string(status.message()));
  return 1;
}

}  // namespace trainyard::engine
