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

  TY_DEVICE PixelAt(int64_t i, int32_t rows, int32_t columns, int64_t channels) {
    const Divided by_channels = Divide(i, channels);
    const Divided by_columns = Divide(by_channels.quotient, columns);
    const Divided by_rows = Divide(by_columns.quotient, rows);
    channel = by_channels.remainder;
    column = static_cast<int32_t>(by_columns.remainder);
    row = static_cast<int32_t>(by_rows.remainder);
    n = by_rows.quotient;
  }
};

// By output: y = activation(max over the window of x + bias), and the place of the maximum. bias
// and argmax may be null.
struct MaxPool {
  const float* x;
  const float* bias;
  float* y;
  uint8_t* argmax;
  WindowPlace window;
  Activation activation;

  TY_DEVICE void operator()(int64_t i) const {
    const PixelAt o(i, window.out[0], window.out[1], window.channels);
    const int64_t image = o.n * window.in[0];
    int32_t best_h = window.Begin(0, o.row);
    int32_t best_w = window.Begin(1, o.column);
    const float shift = bias == nullptr ? 0.0f : bias[o.channel];
    const auto at = [&](int32_t h, int32_t w) {
      const int64_t pixel = (image + window.Corner(0, o.row) + h) * window.in[1] + window.Corner(1, o.column) + w;
      return x[pixel * window.channels + o.channel] + shift;
    };
    float best = at(best_h, best_w);
    for (int32_t h = best_h; h < window.End(0, o.row); ++h) {
      for (int32_t w = window.Begin(1, o.column); w < window.End(1, o.column); ++w) {
        const float value = at(h, w);
        if (!(value > best || std::isnan(value))) continue;
        best = value;
        best_h = h;
        best_w = w;
      }
    }
    y[i] = Activate(activation, best);
    if (argmax != nullptr) argmax[i] = static_cast<uint8_t>(best_h * window.size[1] + best_w);
  }
};

// By input: the gradients of the windows whose maximum it was. y is null where there is no
// activation.
struct MaxPoolBack {
  const float* dy;
  const uint8_t* argmax;
  const float* y;
  float* dx;
  WindowPlace window;
  Activation activation;

  TY_DEVICE void operator()(int64_t i) const {
    const PixelAt at(i, window.in[0], window.in[1], window.channels);
    float sum = 0.0f;
    for (int32_t oh = window.FirstOver(0, at.row); oh < window.EndOver(0, at.row); ++oh) {
      for (int32_t ow = window.FirstOver(1, at.column); ow < window.EndOver(1, at.column); ++ow) {
        const int64_t o = ((at.n * window.out[0] + oh) * window.out[1] + ow) * window.channels + at.channel;
        const int32_t place = (at.row - window.Corner(0, oh)) * window.size[1] + at.column - window.Corner(1, ow);
        if (argmax[o] == place) sum += y == nullptr ? dy[o] : dy[o] * ActivationSlope(activation, y[o]);
      }
    }
    dx[i] = sum;
  }
};

// The same where the windows cover the image and no two of them overlap (WindowPlace::Tiles). By
// window: the gradient goes to the place of its maximum, and 0 to the others.
struct MaxPoolBackTiles {
  MaxPoolBack pool;

  TY_DEVICE void operator()(int64_t i) const {
    const WindowPlace& window = pool.window;
    const PixelAt o(i, window.out[0], window.out[1], window.channels);
    const float gradient = pool.y == nullptr ? pool.dy[i] : pool.dy[i] * ActivationSlope(pool.activation, pool.y[i]);
    const int32_t best = pool.argmax[i];
    int32_t place = 0;
    for (int32_t h = 0; h < window.size[0]; ++h) {
      int64_t to =
          ((o.n * window.in[0] + o.row * window.size[0] + h) * window.in[1] + o.column * window.size[1]) * window.channels + o.channel;
      for (int32_t w = 0; w < window.size[1]; ++w, ++place, to += window.channels) pool.dx[to] = place == best ? gradient : 0.0f;
    }
  }
};

// By output.
struct AvgPool {
  const float* x;
  float* y;
  WindowPlace window;

  TY_DEVICE void operator()(int64_t i) const {
    const PixelAt o(i, window.out[0], window.out[1], window.channels);
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
    const PixelAt at(i, window.in[0], window.in[1], window.channels);
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
// padding.
struct ImageToColumns {
  const float* x;
  float* columns;
  WindowPlace window;

  TY_DEVICE void operator()(int64_t i) const {
    const PixelAt place(i, window.size[0], window.size[1], window.channels);
    const PixelAt o(place.n, window.out[0], window.out[1], 1);
    const int32_t h = window.Corner(0, o.row) + place.row;
    const int32_t w = window.Corner(1, o.column) + place.column;
    const bool inside = h >= 0 && h < window.in[0] && w >= 0 && w < window.in[1];
    columns[i] = inside ? x[((o.n * window.in[0] + h) * window.in[1] + w) * window.channels + place.channel] : 0.0f;
  }
};

// The sums of those of an image's columns that came from each of its elements.
struct ColumnsToImage {
  const float* columns;
  float* x;
  WindowPlace window;

  TY_DEVICE void operator()(int64_t i) const {
    const PixelAt at(i, window.in[0], window.in[1], window.channels);
    float sum = 0.0f;
    for (int32_t oh = window.FirstOver(0, at.row); oh < window.EndOver(0, at.row); ++oh) {
      for (int32_t ow = window.FirstOver(1, at.column); ow < window.EndOver(1, at.column); ++ow) {
        const int64_t o = (at.n * window.out[0] + oh) * window.out[1] + ow;
        const int32_t kh = at.row - window.Corner(0, oh);
        const int32_t kw = at.column - window.Corner(1, ow);
        sum += columns[((o * window.size[0] + kh) * window.size[1] + kw) * window.channels + at.channel];
      }
    }
    x[i] = sum;
  }
};

}  // namespace trainyard::engine::cuda
