#include "operator/kube/endpoint.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <charconv>

namespace trainyard::control {

absl::StatusOr<Endpoint> ParseEndpoint(std::string_view url) {
  const auto bad = [url](std::string_view problem) {
    return absl::InvalidArgumentError(fmt::format("server \"{}\": {}; expected https://host[:port]", url, problem));
  };
  Endpoint endpoint;
  std::string_view rest = url;
  if (rest.starts_with("https://")) {
    rest.remove_prefix(8);
  } else if (rest.starts_with("http://")) {
    rest.remove_prefix(7);
    endpoint.tls = false;
    endpoint.port = 80;
  } else {
    return bad("neither https:// nor http://");
  }
  const size_t slash = rest.find('/');
  if (slash != std::string_view::npos) {
    endpoint.prefix = rest.substr(slash);
    while (endpoint.prefix.ends_with('/')) endpoint.prefix.pop_back();
    rest = rest.substr(0, slash);
  }
  std::string_view port;
  if (rest.starts_with('[')) {
    const size_t close = rest.find(']');
    if (close == std::string_view::npos) return bad("no ] after the IPv6 address");
    endpoint.host = rest.substr(1, close - 1);
    rest.remove_prefix(close + 1);
    if (!rest.empty() && !rest.starts_with(':')) return bad("text after the IPv6 address");
    port = rest;
  } else {
    const size_t colon = rest.find(':');
    endpoint.host = rest.substr(0, colon);
    if (colon != std::string_view::npos) port = rest.substr(colon);
  }
  if (endpoint.host.empty() || endpoint.host.find_first_of("@?# \t\r\n") != std::string::npos) return bad("no host name");
  if (!port.empty()) {
    port.remove_prefix(1);
    const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), endpoint.port);
    if (error != std::errc() || end != port.data() + port.size() || endpoint.port < 1 || endpoint.port > 65535) return bad("no valid port");
  }
  return endpoint;
}

bool IsIpAddress(const std::string& host) {
  unsigned char address[sizeof(in6_addr)];
  return inet_pton(AF_INET, host.c_str(), address) == 1 || inet_pton(AF_INET6, host.c_str(), address) == 1;
}

}  // namespace trainyard::control
