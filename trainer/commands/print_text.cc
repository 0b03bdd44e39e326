#include "trainer/commands/print_text.h"

#include <cstdio>

#include "trainer/cli/palette.h"

namespace trainyard::engine {

int PrintText(const absl::StatusOr<std::string>& text) {
  if (!text.ok()) {
    PrintError(std::string(text.status().message()));
    return 1;
  }
  std::fwrite(text->data(), 1, text->size(), stdout);
  return 0;
}

}  // namespace trainyard::engine
