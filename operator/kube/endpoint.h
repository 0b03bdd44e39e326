// Endpoint: an API server's address taken apart.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace trainyard::control {

struct Endpoint {
  bool tls = true;
  std::string host;  // without the brackets of an IPv6 address
  int port = 443;
  std::string prefix;  // path before every target, "" or "/k8s/clusters/c-1"
};

// "https://host[:port][/prefix]", also http:. InvalidArgument quotes what was found.
absl::StatusOr<Endpoint> ParseEndpoint(std::string_view url);

bool IsIpAddress(const std::string& host);

}  // namespace trainyard::control
