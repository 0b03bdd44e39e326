#include "trainer/transport/tls.h"

#include <grpcpp/security/credentials.h>
#include <grpcpp/security/server_credentials.h>

namespace trainyard::engine {

GrpcTransportOptions WithTls(const TlsFiles& files, GrpcTransportOptions options) {
  options.dial_credentials =
      grpc::SslCredentials({.pem_root_certs = files.authority, .pem_private_key = files.key, .pem_cert_chain = files.certificate});
  options.peer_name = files.name;
  grpc::SslServerCredentialsOptions listen(GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  listen.pem_root_certs = files.authority;
  listen.pem_key_cert_pairs.push_back({.private_key = files.key, .cert_chain = files.certificate});
  options.listen_credentials = grpc::SslServerCredentials(listen);
  return options;
}

}  // namespace trainyard::engine
