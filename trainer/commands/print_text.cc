#include "trainer/commands/print_text.h"

#include "trainer/cli/palette.h"
#include "trainer/cli/print.h"

namespace trainyard::engine {

int PrintText(const absl::StatusOr<std::string>& text) {
  if (!text.ok()) {
    PrintError(std::string(text.status().message()));
    return 1;
  }
  Print(*text);
  return 0;
}

}  // namespace trainyard::engine
