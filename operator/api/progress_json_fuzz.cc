// Any bytes as the answer of a chief or a server: never a crash, and only finite, bounded values.
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "operator/api/progress_json.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto served = trainyard::control::ParseServedVersion(text); served && served->version < 0) std::abort();
  const auto progress = trainyard::control::ParseProgress(text);
  if (!progress) return 0;
  if (progress->step < 0 || progress->metrics.size() > 16 || (progress->loss && !std::isfinite(*progress->loss))) std::abort();
  return 0;
}
