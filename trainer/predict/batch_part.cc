#include "trainer/predict/batch_part.h"

namespace trainyard::engine {

int64_t BatchPart(int64_t examples, int64_t threads, const PredictionBytes& bytes) {
  const auto moved = [&](int64_t part) { return bytes.parameters / part + (part * bytes.arena <= bytes.caches ? 0 : bytes.values); };
  int64_t best = examples;
  for (int64_t part = threads; part < examples; part *= 2) {
    if (moved(part) < moved(best)) best = part;
  }
  return best;
}

}  // namespace trainyard::engine
