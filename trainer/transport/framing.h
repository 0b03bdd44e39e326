// A message as bytes: records one after the other, each a header and its payload.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "trainer/transport/payload.h"
#include "trainer/transport/transport.h"

namespace trainyard::engine {

// Cuts a received message into records whose payloads share its memory. InvalidArgument: a bad
// header (see Decode), or a message that ends within a header or a payload. Memory used is
// proportional to the message, whatever its headers claim.
absl::StatusOr<std::vector<Record>> ParseMessage(const Payload& message);

// The kError record that tells `status`, and back. The payload is the code as 4 little-endian
// bytes, then the text.
Record ErrorRecord(const absl::Status& status);
absl::Status StatusOf(const Record& error);

}  // namespace trainyard::engine
