#include "trainer/train/print_text.h"

#include <spdlog/spdlog.h>

#include <cstdio>

namespace trainyard::engine {

int PrintText(const absl::StatusOr<std::string>& text) {
  if (!text.ok()) {
    spdlog::error("{}", std::string(text.status().message()));
    return 1;
  }
  std::fwrite(text->data(), 1, text->size(), stdout);
  return 0;
}

}  // namespace trainyard::engine
