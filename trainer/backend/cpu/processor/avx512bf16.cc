// Products of bfloat16 operands by AVX512-BF16: vdpbf16ps adds two products to each lane.
#include <immintrin.h>

#include "trainer/backend/cpu/kernels/bf16_blocks.h"

namespace trainyard::engine {
namespace {

struct PairDot {
  static V Add(V sum, uint32_t left, VU right) {
    const VU splat = VU{} + left;
    return reinterpret_cast<V>(
        _mm512_dpbf16_ps(reinterpret_cast<__m512>(sum), reinterpret_cast<__m512bh>(splat), reinterpret_cast<__m512bh>(right)));
  }
};

void Begin(int, int) {}
void Product(const Bf16ProductArgs& args) { RunProduct<PairDot>(args); }
void End() {}

}  // namespace

namespace avx512bf16 {
extern const Bf16Product kProduct;
const Bf16Product kProduct = {.begin = Begin, .product = Product, .end = End};
}  // namespace avx512bf16

}  // namespace trainyard::engine
