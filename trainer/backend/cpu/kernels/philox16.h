// The random words of 16 counters at once.
#pragma once

#include "trainer/backend/cpu/kernels/vec.h"

namespace trainyard::engine {
namespace {

using U32 = uint32_t __attribute__((vector_size(64)));
using U64 = uint64_t __attribute__((vector_size(128)));

// One multiplication of a Philox round: the high and the low word of constant * x.
struct Product32 {
  U32 high, low;
};
inline Product32 Multiply(U32 x, uint64_t constant) {
  const U64 wide = __builtin_convertvector(x, U64) * constant;
  return {__builtin_convertvector(wide >> 32, U32), __builtin_convertvector(wide, U32)};
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
