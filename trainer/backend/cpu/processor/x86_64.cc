// x86-64: AVX-512 (F, BW, DQ, VL), else AVX2 with FMA, else the baseline. Weights of 28 bits by
// AVX512-VBMI.
#include <array>

#include "trainer/backend/cpu/float28_weights.h"
#include "trainer/backend/cpu/select_kernels.h"

namespace trainyard::engine {

namespace baseline {
extern const KernelTable kTable;
}
namespace avx2 {
extern const KernelTable kTable;
}
namespace avx512 {
extern const KernelTable kTable;
}

namespace avx512vbmi {
extern const Float28Product kProduct;
}

namespace {

// From `first` on, the machine can run all of these.
constexpr std::array<const KernelTable*, 3> kFastestFirst = {&avx512::kTable, &avx2::kTable, &baseline::kTable};

size_t FirstRunnable() {
  __builtin_cpu_init();
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  return avx512 ? 0 : avx2 ? 1 : 2;
}

}  // namespace

std::span<const KernelTable* const> RunnableKernels() { return std::span(kFastestFirst).subspan(FirstRunnable()); }

Float28Product RunnableFloat28Product() {
  return FirstRunnable() == 0 && __builtin_cpu_supports("avx512vbmi") ? avx512vbmi::kProduct : nullptr;
}

}  // namespace trainyard::engine
