// The order in which an epoch reads its examples.
#pragma once

#include <cstdint>
#include <vector>

#include "trainer/data/pipeline_config.h"

namespace trainyard::engine {

struct EpochOrderOptions {
  std::vector<int64_t> files;  // examples of each file, in reading order; empty: one file
  InterleaveConfig interleave;
  ShuffleConfig shuffle;
  uint64_t seed = 1;
};

// The numbers of the examples [begin, end) in the order of `epoch`: interleaved over their files,
// then shuffled. A function of its arguments alone. The vector's memory is reused.
// - kAll: Fisher and Yates' shuffle of all of them.
// - kBuffer: a buffer of so many examples. An example of it, drawn at random, goes out. The next in
//   reading order takes its place, as in tf.data. An example comes at most `buffer` - 1 places
//   before its place in reading order; a buffer of 1 changes nothing.
void MakeEpochOrder(const EpochOrderOptions& options, int64_t epoch, int64_t begin, int64_t end, std::vector<int64_t>& order);

}  // namespace trainyard::engine
