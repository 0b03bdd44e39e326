// Lanes over gRPC: one channel and one long-lived bidirectional stream per lane, messages as ByteBuffers whose slices are the tensors' own
// memory, no protobuf. Addresses are gRPC's: host:port, [v6]:port, unix:path.
#pragma once

#include <memory>

#include "trainer/transport/transport.h"

namespace trainyard::engine {

struct GrpcTransportOptions {
  int io_threads = 1;  // for each side (dialled lanes; each listener): handlers run on them
};

// Also tunes the process's malloc for large receive buffers (glibc's mmap and trim thresholds).
std::unique_ptr<Transport> MakeGrpcTransport(const GrpcTransportOptions& options = {});

}  // namespace trainyard::engine
