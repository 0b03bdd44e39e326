// Bodies of loops over the elements of images: pooling, and the columns of convolutions. Backward
// passes gather, so each sum has one order and no element is written twice.
#pragma once

#include <cmath>
#include <cstdint>

#include "trainer/backend/cuda/elementwise_bodies.h"

namespace trainyard::engine::cuda {

// A window over images [N, in 0, in 1, channels], as WindowGeometry (graph/window.h).
struct WindowPlace {
  int32_t in[2], out[2], pad[2], size[2], stride[2];
  int64_t channels;
  // The same numbers, to take indices apart by.
  Divisor over_in[2], over_out[2], over_size[2], over_channels;

  // The first and the end of the places of window `o` that lie inside the image, along `axis`.
  TY_DEVICE int32_t Begin(int axis, int32_t o) const {
    const int32_t corner = Corner(axis, o);
    return corner < 0 ? -corner : 0;
  }
  TY_DEVICE int32_t End(int axis, int32_t o) const {
    const int32_t left = in[axis] - Corner(axis, o);
    return left < size[axis] ? left : size[axis];
  }
  bool Tiles() const {
    for (int axis = 0; axis < 2; ++axis) {
      if (stride[axis] != size[axis] || pad[axis] != 0 || in[axis] != out[axis] * size[axis]) return false;
    }
    return true;
  }
  TY_DEVICE int32_t Corner(int axis, int32_t o) const { return o * stride[axis] - pad[axis]; }
  // The first and the end of the windows that hold input row (column) `h`.
  TY_DEVICE int32_t FirstOver(int axis, int32_t h) const {
    const int32_t beyond = h + pad[axis] - size[axis] + 1;
    return beyond <= 0 ? 0 : (beyond + stride[axis] - 1) / stride[axis];
  }
  TY_DEVICE int32_t EndOver(int axis, int32_t h) const {
    const int32_t end = (h + pad[axis]) / stride[axis] + 1;
    return end < out[axis] ? end : out[axis];
  }
};

// Element i of [N, rows, columns, channels], taken apart.
struct PixelAt {
  int64_t n, channel;
  int32_t row, column;

  TY_DEVICE PixelAt(int64_t i, const Divisor (&extents)[2], const Divisor& channels) {
    const Divided by_channels = channels.Divide(i);
    const Divided by_columns = extents[1].Divide(by_channels.quotient);
    const Divided by_rows = extents[0].Divide(by_columns.quotient);
    channel = by_channels.remainder;
    column = static_cast<int32_t>(by_columns.remainder);
    row = static_cast<int32_t>(by_rows.remainder);
    n = by_rows.quotient;
  }
};

// By output: y = activation(max over the window of x + bias), and the place of the maximum. bias
// and argmax may be null.
template <typename T>
struct MaxPool {
  const T* x;
  const float* bias;
  float* y;
  uint8_t* argmax;
  WindowPlace window;
  Activation activation;

  int neighbours() const { return NeighboursIn(window.channels, x, bias, y, argmax); }
  template <int kN>
  TY_DEVICE void Run(int64_t i) const {
    const PixelAt o(i, window.over_out, window.over_channels);
    const int64_t image = o.n * window.in[0];
    const int32_t top = window.Begin(0, o.row);
    const int32_t left = window.Begin(1, o.column);
    float shifts[kN] = {};
    if (bias != nullptr) Load(bias + o.channel, shifts);
    float best[kN];
    int32_t places[kN];
    for (int32_t h = top; h < window.End(0, o.row); ++h) {
      for (int32_t w = left; w < window.End(1, o.column); ++w) {
        const int64_t pixel = (image + window.Corner(0, o.row) + h) * window.in[1] + window.Corner(1, o.column) + w;
        const bool first = h == top && w == left;
        float values[kN];
        Load(x + pixel * window.channels + o.channel, values);
        for (int k = 0; k < kN; ++k) {
          values[k] += shifts[k];
          if (!first && !(values[k] > best[k] || std::isnan(values[k]))) continue;
          best[k] = values[k];
          places[k] = h * window.size[1] + w;
        }
      }
    }
    for (int k = 0; k < kN; ++k) best[k] = Activate(activation, best[k]);
    Store(best, y + i);
    if (argmax == nullptr) return;
    Neighbours<uint8_t, kN> bytes;
    for (int k = 0; k < kN; ++k) bytes.at[k] = static_cast<uint8_t>(places[k]);
    *reinterpret_cast<Neighbours<uint8_t, kN>*>(argmax + i) = bytes;
  }
};

// By input: the gradients of the windows whose maximum it was. y is null where there is no
// activation.
template <typename T>
struct MaxPoolBack {
  const float* dy;
  const uint8_t* argmax;
  const float* y;
  T* dx;
  WindowPlace window;
  Activation activation;

  TY_DEVICE void operator()(int64_t i) const {
    const PixelAt at(i, window.over_in, window.over_channels);
    float sum = 0.0f;
    for (int32_t oh = window.FirstOver(0, at.row); oh < window.EndOver(0, at.row); ++oh) {
      for (int32_t ow = window.FirstOver(1, at.column); ow < window.EndOver(1, at.column); ++ow) {
        const int64_t o = ((at.n * window.out[0] + oh) * window.out[1] + ow) * window.channels + at.channel;
        const int32_t place = (at.row - window.Corner(0, oh)) * window.size[1] + at.column - window.Corner(1, ow);
        if (argmax[o] == place) sum += y == nullptr ? dy[o] : dy[o] * ActivationSlope(activation, y[o]);
      }
    }
    Narrow(sum, dx[i]);
  }
};

// The same where the windows cover the image and no two of them overlap (WindowPlace::Tiles). By
// window: the gradient goes to the place of its maximum, and 0 to the others.
template <typename T>
struct MaxPoolBackTiles {
  MaxPoolBack<T> pool;

  int neighbours() const { return NeighboursIn(pool.window.channels, pool.dy, pool.argmax, pool.y, pool.dx); }
  template <int kN>
  TY_DEVICE void Run(int64_t i) const {
    const WindowPlace& window = pool.window;
    const PixelAt o(i, window.over_out, window.over_channels);
    float gradients[kN];
    Load(pool.dy + i, gradients);
    if (pool.y != nullptr) {
      float values[kN];
      Load(pool.y + i, values);
      for (int k = 0; k < kN; ++k) gradients[k] *= ActivationSlope(pool.activation, values[k]);
    }
    const Neighbours<uint8_t, kN> best = *reinterpret_cast<const Neighbours<uint8_t, kN>*>(pool.argmax + i);
    int32_t place = 0;
    for (int32_t h = 0; h < window.size[0]; ++h) {
      int64_t to =
          ((o.n * window.in[0] + o.row * window.size[0] + h) * window.in[1] + o.column * window.size[1]) * window.channels + o.channel;
      for (int32_t w = 0; w < window.size[1]; ++w, ++place, to += window.channels) {
        float here[kN];
        for (int k = 0; k < kN; ++k) here[k] = place == best.at[k] ? gradients[k] : 0.0f;
        Store(here, pool.dx + to);
      }
    }
  }
};

// By output.
struct AvgPool {
  const float* x;
  float* y;
  WindowPlace window;

  TY_DEVICE void operator()(int64_t i) const {
    const PixelAt o(i, window.over_out, window.over_channels);
    float sum = 0.0f;
    for (int32_t h = window.Begin(0, o.row); h < window.End(0, o.row); ++h) {
      for (int32_t w = window.Begin(1, o.column); w < window.End(1, o.column); ++w) {
        const int64_t pixel = (o.n * window.in[0] + window.Corner(0, o.row) + h) * window.in[1] + window.Corner(1, o.column) + w;
        sum += x[pixel * window.channels + o.channel];
      }
    }
    y[i] =
        sum / static_cast<float>((window.End(0, o.row) - window.Begin(0, o.row)) * (window.End(1, o.column) - window.Begin(1, o.column)));
  }
};

// By input.
struct AvgPoolBack {
  const float* dy;
  float* dx;
  WindowPlace window;

  TY_DEVICE void operator()(int64_t i) const {
    const PixelAt at(i, window.over_in, window.over_channels);
    float sum = 0.0f;
    for (int32_t oh = window.FirstOver(0, at.row); oh < window.EndOver(0, at.row); ++oh) {
      const int32_t rows = window.End(0, oh) - window.Begin(0, oh);
      for (int32_t ow = window.FirstOver(1, at.column); ow < window.EndOver(1, at.column); ++ow) {
        const int64_t o = ((at.n * window.out[0] + oh) * window.out[1] + ow) * window.channels + at.channel;
        sum += dy[o] / static_cast<float>(rows * (window.End(1, ow) - window.Begin(1, ow)));
      }
    }
    dx[i] = sum;
  }
};

// Images → columns [N, out 0, out 1, size 0, size 1, channels]: by element of the columns, 0 for
// padding. Neighbours may be of several pixels.
template <typename T>
struct ImageToColumns {
  const T* x;
  T* columns;
  WindowPlace window;

  int neighbours() const { return NeighboursIn(kMostNeighbours, columns); }
  template <int kN>
  TY_DEVICE void Run(int64_t i) const {
    PixelAt place(i, window.over_size, window.over_channels);
    const Divided by_columns = window.over_out[1].Divide(place.n);
    const Divided by_rows = window.over_out[0].Divide(by_columns.quotient);
    int64_t n = by_rows.quotient;
    auto o_row = static_cast<int32_t>(by_rows.remainder);
    auto o_column = static_cast<int32_t>(by_columns.remainder);
    float values[kN];
    for (int k = 0; k < kN; ++k) {
      const int32_t h = window.Corner(0, o_row) + place.row;
      const int32_t w = window.Corner(1, o_column) + place.column;
      const bool inside = h >= 0 && h < window.in[0] && w >= 0 && w < window.in[1];
      values[k] = inside ? Widened(x[((n * window.in[0] + h) * window.in[1] + w) * window.channels + place.channel]) : 0.0f;
      if (++place.channel < window.channels) continue;
      place.channel = 0;
      if (++place.column < window.size[1]) continue;
      place.column = 0;
      if (++place.row < window.size[0]) continue;
      place.row = 0;
      if (++o_column < window.out[1]) continue;
      o_column = 0;
      if (++o_row < window.out[0]) continue;
      o_row = 0;
      ++n;
    }
    Store(values, columns + i);
  }
};

// The sums of those of an image's columns that came from each of its elements.
template <typename T>
struct ColumnsToImage {
  const float* columns;
  T* x;
  WindowPlace window;

  int neighbours() const { return NeighboursIn(window.channels, columns, x); }
  template <int kN>
  TY_DEVICE void Run(int64_t i) const {
    const PixelAt at(i, window.over_in, window.over_channels);
    float sums[kN] = {};
    for (int32_t oh = window.FirstOver(0, at.row); oh < window.EndOver(0, at.row); ++oh) {
      for (int32_t ow = window.FirstOver(1, at.column); ow < window.EndOver(1, at.column); ++ow) {
        const int64_t o = (at.n * window.out[0] + oh) * window.out[1] + ow;
        const int32_t kh = at.row - window.Corner(0, oh);
        const int32_t kw = at.column - window.Corner(1, ow);
        float values[kN];
        Load(columns + ((o * window.size[0] + kh) * window.size[1] + kw) * window.channels + at.channel, values);
        for (int k = 0; k < kN; ++k) sums[k] += values[k];
      }
    }
    Store(sums, x + i);
  }
};

}  // namespace trainyard::engine::cuda
