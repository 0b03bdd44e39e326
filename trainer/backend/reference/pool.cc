#include <algorithm>
#include <cmath>
#include <cstdint>

#include "trainer/backend/reference/kernels.h"

namespace trainyard::engine::reference {
namespace {

struct Span {
  int64_t begin;
  int64_t end;
};

// Places within a window, along one axis, that lie inside the image.
Span Inside(const Window& window, const WindowGeometry& g, int axis, int64_t out) {
  const int64_t corner = out * window.stride[axis] - g.pad_before[axis];
  return {std::max<int64_t>(0, -corner), std::min<int64_t>(window.size[axis], g.in[axis] - corner)};
}

// Calls visit(y element, rows inside, columns inside, at) for every output; at(kh, kw) is the x
// element at that place of its window.
template <typename Visit>
void ForEachWindow(const Window& window, const Shape& x_shape, Visit visit) {
  const WindowGeometry g = Placed(window, x_shape);
  const int64_t channels = x_shape[3];
  int64_t y = 0;
  for (int64_t n = 0; n < x_shape[0]; ++n) {
    for (int64_t oh = 0; oh < g.out[0]; ++oh) {
      for (int64_t ow = 0; ow < g.out[1]; ++ow) {
        const int64_t h = oh * window.stride[0] - g.pad_before[0];
        const int64_t w = ow * window.stride[1] - g.pad_before[1];
        for (int64_t c = 0; c < channels; ++c, ++y) {
          visit(y, Inside(window, g, 0, oh), Inside(window, g, 1, ow),
                [&](int64_t kh, int64_t kw) { return ((n * g.in[0] + h + kh) * g.in[1] + w + kw) * channels + c; });
        }
      }
    }
  }
}

}  // namespace

WindowGeometry Placed(const Window& window, const Shape& input) {
  const absl::StatusOr<WindowGeometry> geometry = PlaceWindow(window, input);
  TY_CHECK(geometry.ok());
  return *geometry;
}

template <typename T>
void MaxPool(const Window& window, const Shape& x_shape, const T* x, T* y, uint8_t* argmax) {
  ForEachWindow(window, x_shape, [&](int64_t out, Span rows, Span columns, auto at) {
    int64_t best_h = rows.begin;
    int64_t best_w = columns.begin;
    for (int64_t kh = rows.begin; kh < rows.end; ++kh) {
      for (int64_t kw = columns.begin; kw < columns.end; ++kw) {
        const T value = x[at(kh, kw)];
        if (!(value > x[at(best_h, best_w)] || std::isnan(value))) continue;
        best_h = kh;
        best_w = kw;
      }
    }
    y[out] = x[at(best_h, best_w)];
    if (argmax != nullptr) argmax[out] = static_cast<uint8_t>(best_h * window.size[1] + best_w);
  });
}

template <typename T>
RunFunction MakeRun(const MaxPoolOp& op, const NodeView& node) {
  return [window = op.window, x_shape = node.in(0).shape](const KernelContext& context) {
    MaxPool(window, x_shape, context.input<T>(0), context.output<T>(0), context.output<uint8_t>(1));
  };
}

template <typename T>
RunFunction MakeRun(const MaxPoolGradientOp& op, const NodeView& node) {
  return [op, x_shape = node.out().shape](const KernelContext& context) {
    const T* dy = context.input<T>(0);
    const auto* argmax = context.input<uint8_t>(1);
    const T* y = op.activation == Activation::kIdentity ? nullptr : context.input<T>(2);
    T* dx = context.output<T>(0);
    std::fill_n(dx, x_shape.elements(), T{0});
    ForEachWindow(op.window, x_shape, [&](int64_t out, Span, Span, auto at) {
      const T slope = y == nullptr ? T{1} : ActivationSlope(op.activation, y[out]);
      dx[at(argmax[out] / op.window.size[1], argmax[out] % op.window.size[1])] += dy[out] * slope;
    });
  };
}

template <typename T>
RunFunction MakeRun(const AvgPoolOp& op, const NodeView& node) {
  return [window = op.window, x_shape = node.in(0).shape](const KernelContext& context) {
    const T* x = context.input<T>(0);
    T* y = context.output<T>(0);
    ForEachWindow(window, x_shape, [&](int64_t out, Span rows, Span columns, auto at) {
      T sum{0};
      for (int64_t kh = rows.begin; kh < rows.end; ++kh) {
        for (int64_t kw = columns.begin; kw < columns.end; ++kw) sum += x[at(kh, kw)];
      }
      y[out] = sum / static_cast<T>((rows.end - rows.begin) * (columns.end - columns.begin));
    });
  };
}

template <typename T>
RunFunction MakeRun(const AvgPoolGradientOp& op, const NodeView& node) {
  return [window = op.window, x_shape = node.out().shape](const KernelContext& context) {
    const T* dy = context.input<T>(0);
    T* dx = context.output<T>(0);
    std::fill_n(dx, x_shape.elements(), T{0});
    ForEachWindow(window, x_shape, [&](int64_t out, Span rows, Span columns, auto at) {
      const T share = dy[out] / static_cast<T>((rows.end - rows.begin) * (columns.end - columns.begin));
      for (int64_t kh = rows.begin; kh < rows.end; ++kh) {
        for (int64_t kw = columns.begin; kw < columns.end; ++kw) dx[at(kh, kw)] += share;
      }
    });
  };
}

template void MaxPool(const Window&, const Shape&, const float*, float*, uint8_t*);
template void MaxPool(const Window&, const Shape&, const double*, double*, uint8_t*);
template RunFunction MakeRun<float>(const MaxPoolOp&, const NodeView&);
template RunFunction MakeRun<double>(const MaxPoolOp&, const NodeView&);
template RunFunction MakeRun<float>(const MaxPoolGradientOp&, const NodeView&);
template RunFunction MakeRun<double>(const MaxPoolGradientOp&, const NodeView&);
template RunFunction MakeRun<float>(const AvgPoolOp&, const NodeView&);
template RunFunction MakeRun<double>(const AvgPoolOp&, const NodeView&);
template RunFunction MakeRun<float>(const AvgPoolGradientOp&, const NodeView&);
template RunFunction MakeRun<double>(const AvgPoolGradientOp&, const NodeView&);

}  // namespace trainyard::engine::reference
