// WorkerPace on the wire (kPace): `key` is the worker, `step` nanoseconds, the payload the node.
#pragma once

#include "absl/status/statusor.h"
#include "trainer/base/worker_pace.h"
#include "trainer/transport/transport.h"

namespace trainyard::engine {

// `record`: of this op, without a payload.
Record WithPace(Record record, const WorkerPace& pace);
// InvalidArgument: `key` is `workers` or more, `step` is more than a year, or the payload is not a
// name of at most 253 bytes.
absl::StatusOr<WorkerPace> PaceOf(const Record& record, int workers);

}  // namespace trainyard::engine
