// The ranges of options, for the command line and for what it calls.
#pragma once

#include <cstdint>

namespace trainyard::engine {

inline constexpr int64_t kMostBenchBytes = int64_t{1} << 30;  // of a vector of floats
inline constexpr bool IsBenchSize(int64_t bytes) { return bytes >= 4 && bytes <= kMostBenchBytes && bytes % 4 == 0; }
inline constexpr int64_t kMostBenchExamples = 1024;  // of a call of Predictor::Predict

}  // namespace trainyard::engine
