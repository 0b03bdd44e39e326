// The random words of 16 counters at once.
#pragma once

#include "trainer/backend/cpu/kernels/vec.h"

namespace trainyard::engine {
namespace {

using U32 = uint32_t __attribute__((vector_size(64)));
using U64 = uint64_t __attribute__((vector_size(64)));

// One multiplication of a Philox round: the high and the low word of constant * x.
struct Product32 {
  U32 high, low;
};
// Of even and of odd lanes, as the lower and the upper words of 64 bits: lanes need not move.
inline Product32 Multiply(U32 x, uint64_t constant) {
  constexpr uint64_t kLower = 0xffffffffu;
  const U64 both = reinterpret_cast<U64>(x);
  const U64 even = (both & kLower) * constant;
  const U64 odd = (both >> 32) * constant;
  return {reinterpret_cast<U32>((even >> 32) | (odd & ~kLower)), reinterpret_cast<U32>((even & kLower) | (odd << 32))};
}

struct Words {
  U32 word[4];
};
// Philox4x32-10 of 16 counters at once (J. K. Salmon et al. 2011), the same bits as ops/philox.h.
inline Words Philox16(Words counter, uint32_t key0, uint32_t key1) {
  for (int round = 0; round < 10; ++round) {
    const Product32 a = Multiply(counter.word[0], 0xD2511F53u);
    const Product32 b = Multiply(counter.word[2], 0xCD9E8D57u);
    counter = {{b.high ^ counter.word[1] ^ key0, b.low, a.high ^ counter.word[3] ^ key1, a.low}};
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  return counter;
}

}  // namespace
}  // namespace trainyard::engine
