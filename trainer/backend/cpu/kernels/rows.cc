// Values in rows: panels of a product's right side, dropout.
#include "trainer/backend/cpu/kernels/isa.h"
#include "trainer/backend/cpu/kernels/philox16.h"
#include "trainer/backend/cpu/kernels/transpose.h"
#include "trainer/backend/cpu/kernels/vec.h"

namespace trainyard::engine {
namespace {

// One row of at most `width` floats, zeros behind it. width is a multiple of 16.
inline void CopyPadded(const float* from, int columns, int width, float* to) {
  for (int i = 0; i < width; i += kLanes) Store(to + i, LoadPart(from + i, columns - i));
}

}  // namespace

namespace TRAINYARD_ISA {

void PackRows(const PackRowsArgs& args) {
  if (!args.transposed) {
    for (int row = 0; row < args.rows; ++row) {
      float* to = args.to + static_cast<int64_t>(row) * args.width;
      CopyPadded(args.from + row * args.from_row, args.columns, args.width, to);
      const float weight = args.sum_weights == nullptr ? 1.0f : args.sum_weights[row];
      for (int i = 0; args.sums != nullptr && i < args.width; i += kLanes)
        Store(args.sums + i, Load(args.sums + i) + Load(to + i) * weight);
    }
    return;
  }
  for (int column = 0; column < args.width; column += kLanes) {
    const int lanes = MinInt(kLanes, args.columns - column);
    for (int row = 0; row < args.rows; row += kLanes) {
      V block[kLanes] = {};
      const int count = MinInt(kLanes, args.rows - row);
      for (int i = 0; i < lanes; ++i) {
        const float* from = args.from + (column + i) * args.from_row + row;
        block[i] = LoadPart(from, count);
      }
      Transpose(block);
      for (int i = 0; i < count; ++i) Store(args.to + static_cast<int64_t>(row + i) * args.width + column, block[i]);
    }
  }
}

void DropoutRows(const DropoutArgs& args) {
  const U32 lane = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  for (int sample = args.panel_begin; sample < args.panel_end; ++sample) {
    const float* x = args.x + sample * args.features;
    float* y = args.y + sample * args.features;
    // 16 counters make the words of 64 features in a row.
    for (int64_t f = 0; f < args.features; f += 4 * kLanes) {
      const Words words = Philox16(
          {{lane + static_cast<uint32_t>(f / 4), U32{} + static_cast<uint32_t>(sample), U32{} + args.salt[0], U32{} + args.salt[1]}},
          args.key[0], args.key[1]);
      uint32_t word[4][kLanes];
      __builtin_memcpy(word, &words, sizeof word);
      for (int64_t i = f; i < args.features && i < f + 4 * kLanes; ++i) {
        y[i] = word[(i - f) % 4][(i - f) / 4] >= args.threshold ? x[i] * args.scale : 0.0f;
      }
    }
  }
}

}  // namespace TRAINYARD_ISA
}  // namespace trainyard::engine
