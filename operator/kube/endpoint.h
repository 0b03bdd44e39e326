// Endpoint: an API server's address as requests need it.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace trainyard::control {

struct Endpoint {
  std::string base;        // before every target: "https://10.96.0.1:443" or "https://host:443/k8s/clusters/c-1"
  std::string connect_to;  // "name:port:host:port" (CURLOPT_CONNECT_TO) where `base` names the certificate's name; else empty
};

// "https://host[:port][/prefix]", also http:, as libcurl's URL parser reads it. With
// `tls_server_name` the certificate has to be for that name. InvalidArgument quotes what was found.
absl::StatusOr<Endpoint> ParseEndpoint(std::string_view url, const std::string& tls_server_name);

bool IsIpAddress(const std::string& host);

}  // namespace trainyard::control
