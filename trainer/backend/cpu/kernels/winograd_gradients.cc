// The transforms of a weight gradient by Winograd's F(2x2, 3x3): the transposes of those of the
// output and of the weights (winograd_panels.cc).
#include "trainer/backend/cpu/kernels/isa.h"
#include "trainer/backend/cpu/kernels/vec.h"

namespace trainyard::engine::TRAINYARD_ISA {

// A dy A^T
void WinogradOutputGradient(const WinogradGradientArgs& args) {
  float* to = args.to;
  for (int row = 0; row < args.rows; ++row) {
    const float* from = args.from + row * args.from_row;
    for (int vector = 0; vector < args.vectors; ++vector, from += kLanes, to += kLanes) {
      V t[4][2];
      for (int j = 0; j < 2; ++j) {
        const V first = Load(from + j * args.from_pixel);
        const V second = Load(from + (2 + j) * args.from_pixel);
        t[0][j] = first;
        t[1][j] = first + second;
        t[2][j] = first - second;
        t[3][j] = -second;
      }
      for (int i = 0; i < 4; ++i) {
        float* element = to + 4 * i * args.element;
        Store(element, t[i][0]);
        Store(element + args.element, t[i][0] + t[i][1]);
        Store(element + 2 * args.element, t[i][0] - t[i][1]);
        Store(element + 3 * args.element, -t[i][1]);
      }
    }
  }
}

// G^T p G
void WinogradWeightGradient(const WinogradWeightGradientArgs& args) {
  for (int64_t k = args.begin; k < args.end; k += kLanes) {
    const int here = static_cast<int>(args.end - k < kLanes ? args.end - k : kLanes);
    V t[3][4];
    for (int j = 0; j < 4; ++j) {
      V p[4];
      for (int i = 0; i < 4; ++i) {
        p[i] = V{};
        for (int part = 0; part < args.parts; ++part) {
          const float* from = args.sums + (int64_t{part} * 16 + i * 4 + j) * args.count + k;
          p[i] += here == kLanes ? LoadUnaligned(from) : LoadPart(from, here);
        }
      }
      t[0][j] = p[0] + (p[1] + p[2]) * 0.5f;
      t[1][j] = (p[1] - p[2]) * 0.5f;
      t[2][j] = p[3] + (p[1] + p[2]) * 0.5f;
    }
    for (int i = 0; i < 3; ++i) {
      const V dw[3] = {t[i][0] + (t[i][1] + t[i][2]) * 0.5f, (t[i][1] - t[i][2]) * 0.5f, t[i][3] + (t[i][1] + t[i][2]) * 0.5f};
      for (int j = 0; j < 3; ++j) {
        float* to = args.dw + (3 * i + j) * args.count + k;
        if (here == kLanes) {
          StoreUnaligned(to, dw[j]);
        } else {
          StorePart(to, dw[j], here);
        }
      }
    }
  }
}

}  // namespace trainyard::engine::TRAINYARD_ISA
