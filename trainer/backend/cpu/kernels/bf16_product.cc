// Products of bfloat16 operands where no instruction multiplies them: each pair is widened to f32.
#include "trainer/backend/cpu/kernels/bf16_blocks.h"
#include "trainer/backend/cpu/kernels/isa.h"

namespace trainyard::engine {
namespace {

struct WideDot {
  static V Add(V sum, uint32_t left, VU right) {
    const auto splat = [](uint32_t bits) { return reinterpret_cast<V>(VU{} + bits); };
    sum += reinterpret_cast<V>(right << 16) * splat(left << 16);
    return sum + reinterpret_cast<V>(right & 0xffff0000u) * splat(left & 0xffff0000u);
  }
};

}  // namespace

namespace TRAINYARD_ISA {

void ProductBf16(const Bf16ProductArgs& args) { RunProduct<WideDot>(args); }

}  // namespace TRAINYARD_ISA
}  // namespace trainyard::engine
