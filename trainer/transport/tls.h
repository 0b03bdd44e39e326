// Mutual TLS of the replicas of one job: all hold one certificate, signed by the job's own
// authority (docs/contract.md).
#pragma once

#include <string>

#include "trainer/transport/grpc_transport.h"

namespace trainyard::engine {

// PEM texts, and the DNS name in the certificate, which is the job's and no host's.
struct TlsFiles {
  std::string authority;
  std::string certificate;
  std::string key;
  std::string name;
};

// The options with credentials by which both ends check each other's certificate.
GrpcTransportOptions WithTls(const TlsFiles& files, GrpcTransportOptions options);

}  // namespace trainyard::engine
