// Data that is made up, but can be learnt: for benchmarks, tests and first tries without files.
#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "trainer/data/dataset.h"

namespace trainyard::engine {

struct SyntheticOptions {
  int64_t examples = 0;
  ExpectedData expected;
  double noise = 0.1;
  uint64_t seed = 1;
  // Examples differ from stream to stream, the rule to be learnt does not: training is stream 0,
  // evaluation 1.
  uint64_t stream = 0;
};

// Classification: each class has a random pattern of values in [0, 1). An example is its class's
// pattern plus normal noise, F32. Regression: y = W x + b + noise with x standard normal. W and b
// are uniform in [-1, 1), and W is divided by sqrt(x's elements). A function of the options alone,
// on every machine. InvalidArgument for fewer than one example or more than memory allows.
absl::StatusOr<std::unique_ptr<Dataset>> MakeSyntheticDataset(const SyntheticOptions& options);

}  // namespace trainyard::engine
