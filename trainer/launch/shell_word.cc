#include "trainer/launch/shell_word.h"

#include <algorithm>
#include <cctype>

namespace trainyard::engine {

std::string ShellWord(std::string_view word) {
  const auto plain = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || std::string_view("_./=:,+-@%").find(c) != std::string_view::npos;
  };
  const std::string folder = word.starts_with('-') ? "./" : "";
  if (!word.empty() && std::ranges::all_of(word, plain)) return folder + std::string(word);
  std::string quoted = folder + "'";
  for (const char c : word) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

std::string SetArguments(std::span<const std::string> overrides) {
  std::string text;
  for (const std::string& one : overrides) text += " --set " + ShellWord(one);
  return text;
}

}  // namespace trainyard::engine
