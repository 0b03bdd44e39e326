// Colours of what is printed for a person. Pure, but for PaletteFor.
#pragma once

#include <string>
#include <string_view>

namespace trainyard::engine {

struct Palette {
  bool on = false;

  std::string Bold(std::string_view text) const { return Paint("1", text); }
  std::string Red(std::string_view text) const { return Paint("1;31", text); }

 private:
  std::string Paint(std::string_view code, std::string_view text) const {
    if (!on) return std::string(text);
    return std::string("\033[").append(code).append("m").append(text).append("\033[0m");
  }
};

// Whether the file is a terminal that colours text and moves its cursor: not where TERM is dumb.
bool TakesEscapes(int file);

// Colours where the file is a terminal, unless NO_COLOR is set to anything (no-color.org) or TERM
// is dumb.
Palette PaletteFor(int file);

// "error: <text>" on standard error, in the terminal's colours.
void PrintError(std::string_view text);

}  // namespace trainyard::engine
