#include "operator/kube/endpoint.h"

#include <arpa/inet.h>
#include <curl/curl.h>
#include <fmt/format.h>

#include <memory>

namespace trainyard::control {
namespace {

struct FreeUrl {
  void operator()(CURLU* url) const { curl_url_cleanup(url); }
};

// Empty where the URL has no such part.
std::string Part(CURLU* url, CURLUPart part, unsigned flags = 0) {
  char* text = nullptr;
  if (curl_url_get(url, part, &text, flags) != CURLUE_OK) return "";
  std::string copy(text);
  curl_free(text);
  return copy;
}

}  // namespace

absl::StatusOr<Endpoint> ParseEndpoint(std::string_view text, const std::string& tls_server_name) {
  const auto bad = [text](std::string_view problem) {
    return absl::InvalidArgumentError(fmt::format("server \"{}\": {}; expected https://host[:port]", text, problem));
  };
  const std::unique_ptr<CURLU, FreeUrl> url(curl_url());
  if (const CURLUcode code = curl_url_set(url.get(), CURLUPART_URL, std::string(text).c_str(), 0); code != CURLUE_OK) {
    return bad(curl_url_strerror(code));
  }
  const std::string scheme = Part(url.get(), CURLUPART_SCHEME);
  if (scheme != "https" && scheme != "http") return bad("neither https:// nor http://");
  for (const CURLUPart unwanted : {CURLUPART_USER, CURLUPART_PASSWORD, CURLUPART_QUERY, CURLUPART_FRAGMENT}) {
    if (!Part(url.get(), unwanted).empty()) return bad("only host, port and a path are understood");
  }
  const std::string host = Part(url.get(), CURLUPART_HOST);  // an IPv6 address has its brackets
  const std::string port = Part(url.get(), CURLUPART_PORT, CURLU_DEFAULT_PORT);
  if (host.empty()) return bad("no host name");
  if (port == "0") return bad("no valid port");
  std::string prefix = Part(url.get(), CURLUPART_PATH);
  while (prefix.ends_with('/')) prefix.pop_back();
  if (tls_server_name.empty()) return Endpoint{.base = fmt::format("{}://{}:{}{}", scheme, host, port, prefix)};
  return Endpoint{.base = fmt::format("{}://{}:{}{}", scheme, tls_server_name, port, prefix),
                  .connect_to = fmt::format("{}:{}:{}:{}", tls_server_name, port, host, port)};
}

bool IsIpAddress(const std::string& host) {
  unsigned char address[sizeof(in6_addr)];
  return inet_pton(AF_INET, host.c_str(), address) == 1 || inet_pton(AF_INET6, host.c_str(), address) == 1;
}

}  // namespace trainyard::control
