// An address to listen at, as flags have it.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace trainyard::control {

struct HostAndPort {
  std::string host;
  int port = 0;  // 0: any free one
};

// "127.0.0.1:8081" or "[::1]:8081" → host and port; nothing for any other text.
std::optional<HostAndPort> ParseHostAndPort(std::string_view text);

}  // namespace trainyard::control
