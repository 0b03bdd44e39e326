// gRPC's own messages, as lines of our log.
#pragma once

namespace trainyard::engine {

// From now on gRPC's errors are warnings of ours, few of them (bounded_lines.h): peers can cause
// one with every connection. Of the process; thread-safe; a second call changes nothing.
void BoundGrpcLog();

}  // namespace trainyard::engine
