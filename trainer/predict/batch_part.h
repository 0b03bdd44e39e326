// How many examples of a batch a prediction computes at a time. Pure.
#pragma once

#include <cstdint>

namespace trainyard::engine {

// Bytes of one network's forward pass.
struct PredictionBytes {
  int64_t parameters = 0;  // that each part of a batch reads
  int64_t values = 0;      // of an example, that leave the caches where a part does not fit
  int64_t arena = 0;       // of an example, where values that are not needed at once share memory
  int64_t caches = 0;      // the second caches of all threads
};

// The part with which an example moves the fewest bytes: all `examples`, or a power of two for each
// of `threads`. 1 or more of each.
int64_t BatchPart(int64_t examples, int64_t threads, const PredictionBytes& bytes);

}  // namespace trainyard::engine
