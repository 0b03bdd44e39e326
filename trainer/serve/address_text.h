// Where a server listens, as a client writes it.
#pragma once

#include <fmt/format.h>

#include <string>

namespace trainyard::engine {

// "127.0.0.1:8080"; an address of IPv6 in brackets, "[::1]:8080".
inline std::string AddressText(const std::string& host, int port) {
  return host.find(':') == std::string::npos ? fmt::format("{}:{}", host, port) : fmt::format("[{}]:{}", host, port);
}

}  // namespace trainyard::engine
