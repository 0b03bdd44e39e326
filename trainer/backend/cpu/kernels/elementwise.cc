// Element by element work over whole vectors, and the bias's gradient.
#include "trainer/backend/cpu/kernels/epilogue.h"
#include "trainer/backend/cpu/kernels/isa.h"
#include "trainer/backend/cpu/kernels/vec.h"

namespace trainyard::engine {
namespace {

template <CpuActivation kActivation>
void GradientAll(const float* dy, const float* y, float* dx, int64_t vectors) {
  for (int64_t i = 0; i < vectors * kLanes; i += kLanes) Store(dx + i, ActivationGradient<kActivation>(Load(dy + i), Load(y + i)));
}

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

namespace TRAINYARD_ISA {

void ActivateVectors(const float* x, float* y, int64_t vectors, CpuActivation activation) { Activate(x, y, vectors, activation); }

void ActivateGradient(const float* dy, const float* y, float* dx, int64_t vectors, CpuActivation activation) {
  switch (activation) {
    case CpuActivation::kNone:
      return GradientAll<CpuActivation::kNone>(dy, y, dx, vectors);
    case CpuActivation::kTanh:
      return GradientAll<CpuActivation::kTanh>(dy, y, dx, vectors);
    case CpuActivation::kRelu:
      return GradientAll<CpuActivation::kRelu>(dy, y, dx, vectors);
    case CpuActivation::kSigmoid:
      return GradientAll<CpuActivation::kSigmoid>(dy, y, dx, vectors);
  }
}

void Add(const float* const* terms, int count, float* y, int64_t begin, int64_t end) {
  for (int64_t i = begin * kLanes; i < end * kLanes; i += kLanes) {
    V sum = Load(terms[0] + i);
    for (int t = 1; t < count; ++t) sum += Load(terms[t] + i);
    Store(y + i, sum);
  }
}

void Bias(const float* x, const float* bias, float* y, int64_t pixels, int channels) {
  for (int64_t pixel = 0; pixel < pixels; ++pixel) {
    for (int c = 0; c < channels; ++c) {
      Store(y, Load(x) + bias[c]);
      x += kLanes;
      y += kLanes;
    }
  }
}

void BiasGradient(const float* dy, float* db, int64_t pixels, int channels, int begin, int end) {
  for (int c = begin; c < end; c += kLanes) {
    const int width = MinInt(kLanes, end - c);
    V sum[kLanes] = {};
    const float* from = dy + int64_t{c} * kLanes;
    if (width == kLanes) {
      for (int64_t pixel = 0; pixel < pixels; ++pixel, from += int64_t{channels} * kLanes) {
        for (int i = 0; i < kLanes; ++i) sum[i] += Load(from + i * kLanes);
      }
    } else {
      for (int64_t pixel = 0; pixel < pixels; ++pixel, from += int64_t{channels} * kLanes) {
        for (int i = 0; i < width; ++i) sum[i] += Load(from + i * kLanes);
      }
    }
    alignas(64) float sums[kLanes];
    Store(sums, SumLanes(sum));
    for (int i = 0; i < width; ++i) db[c + i] = sums[i];
  }
}

void Dropout(const DropoutArgs& args) {
  const U32 lane = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  for (int panel = args.panel_begin; panel < args.panel_end; ++panel) {
    const float* x = args.x + panel * args.features * kLanes;
    float* y = args.y + panel * args.features * kLanes;
    const U32 sample = lane + static_cast<uint32_t>(panel * kLanes);
    for (int64_t f = 0; f < args.features; f += 4) {
      const Words words =
          Philox16({{U32{} + static_cast<uint32_t>(f / 4), sample, U32{} + args.salt[0], U32{} + args.salt[1]}}, args.key[0], args.key[1]);
      for (int64_t i = f; i < args.features && i < f + 4; ++i) {
        const VI keep = reinterpret_cast<VI>(words.word[i - f] >= U32{} + args.threshold);
        Store(y + i * kLanes, AsFloat(keep & AsInt(Load(x + i * kLanes) * args.scale)));
      }
    }
  }
}

}  // namespace TRAINYARD_ISA
}  // namespace trainyard::engine
