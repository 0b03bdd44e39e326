// HttpFront: a Transport (the fake API server) behind a real port, with or without TLS.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "operator/kube/certificates.h"
#include "operator/kube/transport.h"

namespace trainyard::control {

struct HttpFrontOptions {
  std::optional<CertifiedKey> certificate{};  // absent: plain HTTP
  std::string client_ca_pem{};                // set: clients must show a certificate of this authority
  std::string token{};                        // set: requests without "Bearer <token>" get 401
  int port = 0;                               // 0: any free one
};

// Listens on 127.0.0.1 from construction to destruction.
class HttpFront {
 public:
  HttpFront(Transport& backend, HttpFrontOptions options);
  ~HttpFront();

  std::string Url() const;
  int port() const;
  // Bearer tokens that were refused or accepted, in order.
  std::vector<std::string> SeenTokens();
  void ExpectToken(std::string token);

 private:
  struct Server;
  std::unique_ptr<Server> server_;
};

}  // namespace trainyard::control
