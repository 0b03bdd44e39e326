#include "trainer/ops/conv2d.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "trainer/backend/reference/kernels.h"

namespace trainyard::engine::reference {
namespace {

// x [batch, in, channels], w [size, channels, filters], z [batch, out, filters]
struct Convolution {
  int64_t batch;
  int64_t channels;
  int64_t filters;
  Window window;
  WindowGeometry geometry;

  int64_t z_elements() const { return batch * geometry.out[0] * geometry.out[1] * filters; }
};

Convolution ConvolutionOf(const Window& window, const Shape& x, int64_t filters) {
  return {x[0], x[3], filters, window, Placed(window, x)};
}

// Calls visit(x, w, z) for all pixels that the kernel connects. The arguments are the offsets of a
// pixel of x, a kernel position of w and a pixel of z.
template <typename Visit>
void ForEachConnection(const Convolution& conv, Visit visit) {
  const WindowGeometry& g = conv.geometry;
  for (int64_t n = 0; n < conv.batch; ++n) {
    for (int64_t oh = 0; oh < g.out[0]; ++oh) {
      for (int64_t ow = 0; ow < g.out[1]; ++ow) {
        const int64_t z = ((n * g.out[0] + oh) * g.out[1] + ow) * conv.filters;
        for (int64_t kh = 0; kh < conv.window.size[0]; ++kh) {
          const int64_t h = oh * conv.window.stride[0] - g.pad_before[0] + kh;
          if (h < 0 || h >= g.in[0]) continue;
          for (int64_t kw = 0; kw < conv.window.size[1]; ++kw) {
            const int64_t w = ow * conv.window.stride[1] - g.pad_before[1] + kw;
            if (w < 0 || w >= g.in[1]) continue;
            visit(((n * g.in[0] + h) * g.in[1] + w) * conv.channels, (kh * conv.window.size[1] + kw) * conv.channels * conv.filters, z);
          }
        }
      }
    }
  }
}

template <typename T>
void Forward(const Convolution& conv, const T* x, const T* w, T* z) {
  std::fill_n(z, conv.z_elements(), T{0});
  ForEachConnection(conv, [&](int64_t at_x, int64_t at_w, int64_t at_z) {
    for (int64_t c = 0; c < conv.channels; ++c) {
      for (int64_t d = 0; d < conv.filters; ++d) z[at_z + d] += x[at_x + c] * w[at_w + c * conv.filters + d];
    }
  });
}

}  // namespace

template <typename T>
RunFunction MakeRun(const Conv2dOp& op, const NodeView& node) {
  const Convolution conv = ConvolutionOf(op.window, node.in(0).shape, node.in(1).shape[3]);
  const Shape z_shape = {conv.batch, conv.geometry.out[0], conv.geometry.out[1], conv.filters};
  const int64_t y_elements = node.out().shape.elements();
  // Where the pool reads from; without a pool everything happens in y.
  auto pooled_from = std::make_shared<std::vector<T>>(op.epilogue.max_pool ? conv.z_elements() : 0);
  return [=, epilogue = op.epilogue](const KernelContext& context) {
    T* y = context.output<T>(0);
    T* z = epilogue.max_pool ? pooled_from->data() : y;
    Forward(conv, context.input<T>(0), context.input<T>(1), z);
    if (epilogue.bias) AddBias(conv.z_elements() / conv.filters, conv.filters, z, context.input<T>(2), z);
    for (int64_t i = 0; epilogue.add && i < y_elements; ++i) z[i] += context.input<T>(epilogue.bias ? 3 : 2)[i];
    if (epilogue.max_pool) MaxPool(*epilogue.max_pool, z_shape, z, y, context.output<uint8_t>(1));
    for (int64_t i = 0; i < y_elements; ++i) y[i] = Activate(epilogue.activation, y[i]);
  };
}

template <typename T>
RunFunction MakeRun(const Conv2dInputGradientOp& op, const NodeView& node) {
  const Convolution conv = ConvolutionOf(op.window, node.out().shape, node.in(1).shape[3]);
  return [conv, elements = node.out().shape.elements()](const KernelContext& context) {
    const T* dz = context.input<T>(0);
    const T* w = context.input<T>(1);
    T* dx = context.output<T>(0);
    std::fill_n(dx, elements, T{0});
    ForEachConnection(conv, [&](int64_t at_x, int64_t at_w, int64_t at_z) {
      for (int64_t c = 0; c < conv.channels; ++c) {
        T sum{0};
        for (int64_t d = 0; d < conv.filters; ++d) sum += dz[at_z + d] * w[at_w + c * conv.filters + d];
        dx[at_x + c] += sum;
      }
    });
  };
}

template <typename T>
RunFunction MakeRun(const Conv2dWeightGradientOp& op, const NodeView& node) {
  const Convolution conv = ConvolutionOf(op.window, node.in(0).shape, node.in(1).shape[3]);
  return [conv, elements = node.out().shape.elements(), bias = op.bias](const KernelContext& context) {
    const T* x = context.input<T>(0);
    const T* dz = context.input<T>(1);
    T* dw = context.output<T>(0);
    std::fill_n(dw, elements, T{0});
    ForEachConnection(conv, [&](int64_t at_x, int64_t at_w, int64_t at_z) {
      for (int64_t c = 0; c < conv.channels; ++c) {
        for (int64_t d = 0; d < conv.filters; ++d) dw[at_w + c * conv.filters + d] += x[at_x + c] * dz[at_z + d];
      }
    });
    if (bias && context.output<T>(1) != nullptr) SumRows(conv.z_elements() / conv.filters, conv.filters, dz, context.output<T>(1));
  };
}

template RunFunction MakeRun<float>(const Conv2dOp&, const NodeView&);
template RunFunction MakeRun<double>(const Conv2dOp&, const NodeView&);
template RunFunction MakeRun<float>(const Conv2dInputGradientOp&, const NodeView&);
template RunFunction MakeRun<double>(const Conv2dInputGradientOp&, const NodeView&);
template RunFunction MakeRun<float>(const Conv2dWeightGradientOp&, const NodeView&);
template RunFunction MakeRun<double>(const Conv2dWeightGradientOp&, const NodeView&);

}  // namespace trainyard::engine::reference
