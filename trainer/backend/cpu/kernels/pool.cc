// Max and average pooling and their gradients.
#include "trainer/backend/cpu/kernels/epilogue.h"
#include "trainer/backend/cpu/kernels/isa.h"
#include "trainer/backend/cpu/kernels/unpool.h"
#include "trainer/backend/cpu/kernels/vec.h"

namespace trainyard::engine {
namespace {

template <typename PerWindow>
void ForWindows(const PoolArgs& args, const PoolStrides& strides, int begin, int end, PerWindow&& per_window) {
  for (int panel = begin; panel < end; ++panel) {
    for (int row = 0; row < args.out_h; ++row) {
      const Span rows = Inside(row * args.stride_h - args.pad_top, args.size_h, args.in_h);
      for (int column = 0; column < args.out_w; ++column) {
        const Span columns = Inside(column * args.stride_w - args.pad_left, args.size_w, args.in_w);
        const int64_t in = panel * strides.in_panel + rows.begin * strides.in_row + columns.begin * strides.in_column;
        const int64_t out = panel * strides.out_panel + row * strides.out_row + column * strides.in_column;
        const int first =
            (rows.begin - row * args.stride_h + args.pad_top) * args.size_w + columns.begin - column * args.stride_w + args.pad_left;
        per_window(in, out, rows.end - rows.begin, columns.end - columns.begin, first);
      }
    }
  }
}

}  // namespace

namespace TRAINYARD_ISA {

void MaxPool(const PoolArgs& args, int begin, int end) {
  const PoolStrides strides(args);
  ForWindows(args, strides, begin, end, [&](int64_t in, int64_t out, int rows, int columns, int first) {
    MaxWindow(args.x + in, strides.in_row, strides.in_column, rows, columns, first, args.size_w, args.channels, args.y + out,
              args.argmax == nullptr ? nullptr : args.argmax + out);
    if (args.activation != Activation::kIdentity) Activate(args.y + out, args.y + out, args.channels, args.activation);
  });
}

void MaxPoolGradient(const PoolArgs& args, int begin, int end) { UnpoolOf<WidePanels>::Run(args, begin, end); }

void AveragePool(const PoolArgs& args, int begin, int end) {
  const PoolStrides strides(args);
  ForWindows(args, strides, begin, end, [&](int64_t in, int64_t out, int rows, int columns, int) {
    const float share = 1.0f / static_cast<float>(rows * columns);
    for (int c = 0; c < args.channels; ++c) {
      const float* x = args.x + in + int64_t{c} * kLanes;
      V sum = {};
      for (int r = 0; r < rows; ++r) {
        for (int j = 0; j < columns; ++j) sum += Load(x + r * strides.in_row + j * strides.in_column);
      }
      Store(args.y + out + int64_t{c} * kLanes, sum * share);
    }
  });
}

void AveragePoolGradient(const PoolArgs& args, int begin, int end) {
  const PoolStrides strides(args);
  for (int64_t i = begin * strides.in_panel; i < end * strides.in_panel; i += kLanes) Store(args.y + i, V{});
  ForWindows(args, strides, begin, end, [&](int64_t in, int64_t out, int rows, int columns, int) {
    const float share = 1.0f / static_cast<float>(rows * columns);
    for (int c = 0; c < args.channels; ++c) {
      const V part = Load(args.x + out + int64_t{c} * kLanes) * share;
      float* to = args.y + in + int64_t{c} * kLanes;
      for (int r = 0; r < rows; ++r) {
        for (int j = 0; j < columns; ++j) {
          float* dx = to + r * strides.in_row + j * strides.in_column;
          Store(dx, Load(dx) + part);
        }
      }
    }
  });
}

}  // namespace TRAINYARD_ISA
}  // namespace trainyard::engine
