// Streams over gRPC: one channel and one long-lived bidirectional call per stream, messages as
// ByteBuffers whose slices are the tensors' own memory, no protobuf. Addresses are host:port and
// [v6]:port.
#pragma once

#include <memory>
#include <string>

#include "absl/time/time.h"
#include "trainer/transport/transport.h"

namespace grpc {
class ChannelCredentials;
class ServerCredentials;
}  // namespace grpc

namespace trainyard::engine {

struct GrpcTransportOptions {
  FlowOptions flow;
  // A connection whose other end does not answer for about so long is lost: HTTP/2 pings find the
  // host that is gone without a word.
  absl::Duration silence = absl::Seconds(30);
  // From a connection to its HTTP/2 greeting, and from there to its stream; else it is dropped.
  absl::Duration greeting_deadline = absl::Seconds(10);
  // A listener has at most so many connections whose streams nobody trusts yet (Stream::Trust): of
  // more it drops the oldest. All peers that may come at once must fit.
  size_t most_untrusted = 256;
  // Of these at most so many have opened their stream. Each may make gRPC keep one message of up to
  // 3 MiB before anybody can look at it.
  size_t most_untrusted_streams = 64;
  // A destructor waits at most so long for its streams to end.
  absl::Duration end_deadline = absl::Seconds(10);
  std::shared_ptr<grpc::ChannelCredentials> dial_credentials;   // null: plain text
  std::shared_ptr<grpc::ServerCredentials> listen_credentials;  // null: plain text
  std::string peer_name;  // with credentials: the DNS name in the certificate of every peer; "": the host's
};

// Handlers are called from gRPC's own threads. Also tunes the process's malloc for large receive
// buffers (glibc's mmap and trim thresholds). Lets the process open as many files as its hard limit
// allows.
std::unique_ptr<Transport> MakeGrpcTransport(GrpcTransportOptions options = {});

}  // namespace trainyard::engine
