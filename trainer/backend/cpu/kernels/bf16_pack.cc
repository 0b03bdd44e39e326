// Rounds to bfloat16 by whole numbers, where no instruction does.
#include "trainer/backend/cpu/kernels/bf16_pack.h"

#include "trainer/backend/cpu/kernels/isa.h"

namespace trainyard::engine {
namespace {

// To nearest, to even between two, in the upper half of each lane; the lower half is anything. A
// NaN keeps its upper bits and becomes a quiet one.
inline VU RoundUpper(V v) {
  const VU bits = reinterpret_cast<VU>(v);
  const VU rounded = bits + 0x7fffu + ((bits >> 16) & 1u);
  const auto nan = reinterpret_cast<VU>(v != v);
  return (nan & (bits | 0x400000u)) | (~nan & rounded);
}

struct RoundByIntegers {
  static VU Pairs(V low, V high) { return (RoundUpper(low) >> 16) | (RoundUpper(high) & 0xffff0000u); }
  static VU InOrder(V first, V second) {
    return Pairs(__builtin_shufflevector(first, second, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30),
                 __builtin_shufflevector(first, second, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31));
  }
};

}  // namespace

namespace TRAINYARD_ISA {

void PackLeftRows(const Bf16PackArgs& args) { PackRowsLeft<RoundByIntegers>(args); }
void PackLeftColumns(const Bf16PackArgs& args) { PackColumnsLeft<RoundByIntegers>(args); }
void PackRight(const Bf16PackArgs& args) { PackColumnsRight<RoundByIntegers>(args); }
void PackRightRows(const Bf16PackArgs& args) { PackRowsRight<RoundByIntegers>(args); }

}  // namespace TRAINYARD_ISA
}  // namespace trainyard::engine
