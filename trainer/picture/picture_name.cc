#include "trainer/picture/picture_name.h"

#include <algorithm>
#include <array>
#include <string>

#include "absl/strings/ascii.h"

namespace trainyard::engine {
namespace {

constexpr std::array<std::string_view, 3> kEndings = {".png", ".jpg", ".jpeg"};

}  // namespace

bool IsPictureName(std::string_view name) {
  const std::string lower = absl::AsciiStrToLower(std::string(name));
  return std::ranges::any_of(kEndings, [&](std::string_view ending) { return lower.ends_with(ending); });
}

}  // namespace trainyard::engine
