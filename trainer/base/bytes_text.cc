#include "trainer/base/bytes_text.h"

#include <fmt/format.h>

namespace trainyard::engine {

std::string BytesText(int64_t bytes) {
  const auto value = static_cast<double>(bytes);
  if (value >= 1e12) return fmt::format("{:.2f} TB", value / 1e12);
  if (value >= 1e9) return fmt::format("{:.2f} GB", value / 1e9);
  if (value >= 1e6) return fmt::format("{:.1f} MB", value / 1e6);
  if (value >= 1e3) return fmt::format("{:.1f} kB", value / 1e3);
  return fmt::format("{} byte{}", bytes, bytes == 1 ? "" : "s");
}

}  // namespace trainyard::engine
