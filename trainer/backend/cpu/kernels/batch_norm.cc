#include "trainer/backend/cpu/kernels/batch_norm.h"

#include "trainer/backend/cpu/kernels/isa.h"

namespace trainyard::engine {
namespace TRAINYARD_ISA {

void BatchNormMoments(const BatchNormArgs& args) { BatchNormOf<WidePanels>::Moments(args); }
void BatchNormApply(const BatchNormArgs& args) { BatchNormOf<WidePanels>::Apply(args); }
void BatchNormGradientSums(const BatchNormArgs& args) { BatchNormOf<WidePanels>::GradientSums(args); }
void BatchNormGradientApply(const BatchNormArgs& args) { BatchNormOf<WidePanels>::GradientApply(args); }

double SumOfSquares(const float* x, int64_t elements) {
  constexpr int64_t kBlock = 64 * kLanes;  // added up as floats
  double total = 0.0;
  for (int64_t begin = 0; begin < elements; begin += kBlock) {
    const int64_t end = begin + kBlock < elements ? begin + kBlock : elements;
    V sum = {};
    int64_t i = begin;
    for (; i + kLanes <= end; i += kLanes) {
      const V v = LoadUnaligned(x + i);
      sum += v * v;
    }
    for (int lane = 0; lane < kLanes; ++lane) total += static_cast<double>(sum[lane]);
    for (; i < end; ++i) total += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  }
  return total;
}

}  // namespace TRAINYARD_ISA
}  // namespace trainyard::engine
