#include "trainer/backend/reference/kernels.h"
#include "trainer/ops/philox.h"

namespace trainyard::engine::reference {

template <typename T>
RunFunction MakeRun(const DropoutOp& op, const NodeView& node) {
  const int64_t samples = node.out().shape[0];
  const int64_t features = node.out().shape.elements() / samples;
  return [op, samples, features](const KernelContext& context) {
    const T* x = context.input<T>(0);
    T* y = context.output<T>(0);
    const T scale = T{1} / (T{1} - static_cast<T>(op.rate));
    const uint32_t threshold = DropThreshold(op.rate);
    const PhiloxStream stream(context.step.seed, context.step.step, context.step.worker, op.stream);
    for (int64_t n = 0; n < samples; ++n) {
      for (int64_t f = 0; f < features; f += 4) {
        const PhiloxCounter words = stream.Words(static_cast<uint32_t>(n), static_cast<uint32_t>(f / 4));
        for (int64_t k = f; k < f + 4 && k < features; ++k) {
          const int64_t i = n * features + k;
          if (!context.step.training) {
            y[i] = x[i];
          } else {
            y[i] = words[k - f] < threshold ? T{0} : x[i] * scale;
          }
        }
      }
    }
  };
}

template RunFunction MakeRun<float>(const DropoutOp&, const NodeView&);
template RunFunction MakeRun<double>(const DropoutOp&, const NodeView&);

}  // namespace trainyard::engine::reference
