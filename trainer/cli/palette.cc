#include "trainer/cli/palette.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>

namespace trainyard::engine {

bool TakesEscapes(int file) {
  const char* terminal = std::getenv("TERM");
  return isatty(file) != 0 && (terminal == nullptr || std::string_view(terminal) != "dumb");
}

Palette PaletteFor(int file) {
  const char* no_color = std::getenv("NO_COLOR");
  const bool refused = no_color != nullptr && *no_color != '\0';
  return {.on = !refused && TakesEscapes(file)};
}

void PrintError(std::string_view text) {
  std::fflush(stdout);
  std::fprintf(stderr, "%s %s\n", PaletteFor(STDERR_FILENO).Red("error:").c_str(), std::string(text).c_str());
}

}  // namespace trainyard::engine
