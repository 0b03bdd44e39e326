// Pools and a scale for each channel, of values in rows: channels are lanes.
#include "trainer/backend/cpu/kernels/isa.h"
#include "trainer/backend/cpu/kernels/vec.h"

namespace trainyard::engine {
namespace {

// The part of a window of `size` starting at `start` that lies inside [0, in).
struct Span {
  int begin, end;
};
inline Span Inside(int start, int size, int in) { return {MaxInt(0, start), MinInt(in, start + size)}; }

// Calls work(from, count, x_row, to) for every window of samples [begin, end): its first pixel
// inside, its rows and columns, and its output.
template <typename Work>
void ForWindows(const PoolArgs& args, int begin, int end, Work&& work) {
  const int64_t x_row = int64_t{args.in_w} * args.channels;
  float* to = args.y + int64_t{begin} * args.out_h * args.out_w * args.channels;
  for (int sample = begin; sample < end; ++sample) {
    const float* x = args.x + sample * args.in_h * x_row;
    for (int row = 0; row < args.out_h; ++row) {
      const Span rows = Inside(row * args.stride_h - args.pad_top, args.size_h, args.in_h);
      for (int column = 0; column < args.out_w; ++column, to += args.channels) {
        const Span columns = Inside(column * args.stride_w - args.pad_left, args.size_w, args.in_w);
        work(x + rows.begin * x_row + int64_t{columns.begin} * args.channels, rows.end - rows.begin, columns.end - columns.begin, x_row,
             to);
      }
    }
  }
}

// The first `count` channels of a window, from the first pixel to the last.
template <typename Combine>
inline V OverWindow(const float* x, int count, int rows, int columns, int64_t x_row, int channels, Combine&& combine) {
  const auto at = [&](int r, int j) {
    const float* from = x + r * x_row + int64_t{j} * channels;
    return LoadPart(from, count);
  };
  V result = at(0, 0);
  for (int r = 0; r < rows; ++r) {
    for (int j = r == 0 ? 1 : 0; j < columns; ++j) result = combine(result, at(r, j));
  }
  return result;
}

}  // namespace

namespace TRAINYARD_ISA {

void MaxPoolRows(const PoolArgs& args, int begin, int end) {
  // A NaN wins over all but a later NaN.
  const auto higher = [](V best, V value) { return Select((value > best) | (value != value), value, best); };
  ForWindows(args, begin, end, [&](const float* x, int rows, int columns, int64_t x_row, float* to) {
    for (int c = 0; c < args.channels; c += kLanes) {
      const int count = MinInt(kLanes, args.channels - c);
      const V best = OverWindow(x + c, count, rows, columns, x_row, args.channels, higher);
      StorePart(to + c, best, count);
    }
  });
}

void AveragePoolRows(const PoolArgs& args, int begin, int end) {
  ForWindows(args, begin, end, [&](const float* x, int rows, int columns, int64_t x_row, float* to) {
    const float share = 1.0f / static_cast<float>(rows * columns);
    for (int c = 0; c < args.channels; c += kLanes) {
      const int count = MinInt(kLanes, args.channels - c);
      const V sum = OverWindow(x + c, count, rows, columns, x_row, args.channels, [](V a, V b) { return a + b; }) * share;
      StorePart(to + c, sum, count);
    }
  });
}

void ScaleRows(const BatchNormArgs& args) {
  const auto* x = static_cast<const float*>(args.x);
  auto* y = static_cast<float*>(args.y);
  for (int64_t pixel = 0; pixel < args.pixels; ++pixel, x += args.channels, y += args.channels) {
    for (int c = 0; c < args.channels; c += kLanes) {
      const int count = MinInt(kLanes, args.channels - c);
      V value = LoadPart(x + c, count) * Load(args.scale + c) + Load(args.shift + c);
      if (args.relu) value = Max(V{}, value);
      StorePart(y + c, value, count);
    }
  }
}

}  // namespace TRAINYARD_ISA
}  // namespace trainyard::engine
