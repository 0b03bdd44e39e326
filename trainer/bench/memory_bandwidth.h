// How fast this machine's memory is, for rooflines.
#pragma once

#include "absl/status/statusor.h"

namespace trainyard::engine {

// Bytes a second of STREAM's triad, a[i] = b[i] + s * c[i] (McCalpin, 1995), by `threads` threads:
// two vectors read and one written, each of 64 MB; each piece of them at the best of several runs
// (some 0.2 s). What a cache fetches before it is written does not count. ResourceExhausted: there
// is no such memory.
absl::StatusOr<double> MeasureMemoryBandwidth(int threads);

}  // namespace trainyard::engine
