#include "trainer/bench/memory_bandwidth.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <numeric>
#include <vector>

#include "trainer/base/memory_for.h"
#include "trainer/base/status_macros.h"
#include "trainer/base/thread_pool.h"
#include "trainer/tensor/buffer.h"

namespace trainyard::engine {
namespace {

constexpr int64_t kFloats = int64_t{16} << 20;  // of a vector: more than caches hold
constexpr int64_t kPiece = int64_t{64} << 10;   // that is timed at a time
constexpr int kRuns = 8;

void Triad(float* __restrict a, const float* __restrict b, const float* __restrict c, float s, int64_t count) {
  for (int64_t i = 0; i < count; ++i) a[i] = b[i] + s * c[i];
}

// Bytes a second of one thread: each piece takes the least time of all runs, so that a busy machine
// looks like an idle one.
double RateOf(float* a, const float* b, const float* c, int64_t count) {
  double seconds = 0;
  std::vector<double> least(static_cast<size_t>((count + kPiece - 1) / kPiece), std::numeric_limits<double>::infinity());
  for (int run = 0; run < kRuns; ++run) {
    for (int64_t at = 0; at < count; at += kPiece) {
      const auto start = std::chrono::steady_clock::now();
      Triad(a + at, b + at, c + at, 0.5F, std::min(kPiece, count - at));
      double& best = least[static_cast<size_t>(at / kPiece)];
      best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    }
  }
  for (const double piece : least) seconds += piece;
  return 3.0 * static_cast<double>(count) * sizeof(float) / seconds;
}

}  // namespace

absl::StatusOr<double> MeasureMemoryBandwidth(int threads) {
  Buffer vectors;
  TY_RETURN_IF_ERROR(WithMemoryFor("the vectors that measure the memory", 3 * kFloats * int64_t{sizeof(float)}, [&] {
    vectors = Buffer(3 * kFloats * sizeof(float));
    return absl::OkStatus();
  }));
  float* const a = vectors.as<float>();
  ThreadPool pool(threads);
  pool.Run(kFloats, [&](int64_t begin, int64_t end, int) {
    for (int vector = 0; vector < 3; ++vector) std::fill(a + vector * kFloats + begin, a + vector * kFloats + end, 1.0F);
  });
  std::vector<double> rates(static_cast<size_t>(threads));
  pool.Run(kFloats, [&](int64_t begin, int64_t end, int thread) {
    rates[static_cast<size_t>(thread)] = RateOf(a + begin, a + kFloats + begin, a + 2 * kFloats + begin, end - begin);
  });
  return std::accumulate(rates.begin(), rates.end(), 0.0);
}

}  // namespace trainyard::engine
