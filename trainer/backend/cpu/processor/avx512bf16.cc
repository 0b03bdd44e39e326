// bfloat16 by AVX512-BF16: vcvtne2ps2bf16 rounds two vectors, and takes values below 2^-126 for
// zeros. vdpbf16ps adds two products to each lane. Every processor that has it has AVX512-VNNI,
// whose vpdpwssd does so with int16.
#include <immintrin.h>

#include "trainer/backend/cpu/kernels/bf16_blocks.h"
#include "trainer/backend/cpu/kernels/bf16_kernels_of.h"
#include "trainer/backend/cpu/kernels/winograd_whole.h"

namespace trainyard::engine {
namespace {

struct RoundByInstruction {
  static VU InOrder(V first, V second) {
    return reinterpret_cast<VU>(_mm512_cvtne2ps_pbh(reinterpret_cast<__m512>(second), reinterpret_cast<__m512>(first)));
  }
  static VU Pairs(V low, V high) {
    using Halves = uint16_t __attribute__((vector_size(64)));
    const auto both = reinterpret_cast<Halves>(InOrder(low, high));
    return reinterpret_cast<VU>(__builtin_shufflevector(both, both, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23, 8, 24, 9, 25,
                                                        10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31));
  }
};

struct PairDot {
  static V Add(V sum, uint32_t left, VU right) {
    const VU splat = VU{} + left;
    return reinterpret_cast<V>(
        _mm512_dpbf16_ps(reinterpret_cast<__m512>(sum), reinterpret_cast<__m512bh>(splat), reinterpret_cast<__m512bh>(right)));
  }
};

constexpr Bf16Kernels MakeKernels() {
  Bf16Kernels kernels = Bf16KernelsOf<RoundByInstruction>(RunProduct<PairDot>, RunProduct<PairDot, LeavePairs<RoundByInstruction>>);
  kernels.winograd_whole = WinogradWholeOf<PairPanels<RoundByInstruction>>::kKernels;
  return kernels;
}

}  // namespace

namespace avx512bf16 {
extern const Bf16Kernels kKernels;
const Bf16Kernels kKernels = MakeKernels();
}  // namespace avx512bf16

}  // namespace trainyard::engine
