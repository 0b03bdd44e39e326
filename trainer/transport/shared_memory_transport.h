// A transport whose streams travel through shared memory where both ends are processes of one
// machine, and as they are elsewhere.
#pragma once

#include <cstdint>
#include <memory>

#include "absl/time/time.h"
#include "trainer/base/lendable_memory.h"
#include "trainer/transport/transport.h"

namespace trainyard::engine {

struct SharedMemoryOptions {
  FlowOptions flow;
  uint32_t ring_bytes = 1 << 20;  // of each direction of a stream; a power of two. Its arena has four times as many
  // A destructor waits at most so long for its streams to end.
  absl::Duration end_deadline = absl::Seconds(10);
  // Long payloads that lie in it are not copied: the other end reads them there. May be null.
  std::shared_ptr<LendableMemory> lendable = nullptr;
};

// Thread-safe, as every transport. Every stream of `transport` begins with the dialler's kOffer and
// the listener's answer kShare (docs/wire.md). So both ends of a job must have this transport, or
// neither. Ends find out by themselves whether they share memory, and tell in the log where it
// should work and does not.
std::unique_ptr<Transport> MakeSharedMemoryTransport(std::unique_ptr<Transport> transport, const SharedMemoryOptions& options = {});

}  // namespace trainyard::engine
