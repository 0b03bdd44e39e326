// Dense layers: the matrix product is a 1x1 convolution over one row whose pixels are the panels
// (and what lies between batch and channels). The weight gradient is a product over samples. A few
// samples take the product too: a panel of sixteen would cost more.
#include "trainer/backend/cpu/bf16_weight_gradient.h"
#include "trainer/backend/cpu/conv_forward_plan.h"
#include "trainer/backend/cpu/device.h"
#include "trainer/backend/cpu/layout.h"
#include "trainer/backend/cpu/make_kernel.h"
#include "trainer/backend/cpu/rows_dense.h"

namespace trainyard::engine {
namespace {

struct DenseShape {
  PanelLayout x;
  int64_t pixels;  // of all panels
  int in, out;

  DenseShape(const Shape& images, const Shape& weights)
      : x(images), pixels(x.panels * x.pixels), in(static_cast<int>(weights[0])), out(static_cast<int>(weights[1])) {}

  // Samples are rows of a product where a panel would be mostly padding.
  bool few() const { return x.pixels == 1 && x.samples <= kLanes / 2; }
};

// y [pixels][outputs][16] = x [pixels][channels][16] times weights, as a 1x1 convolution.
ConvForwardArgs MakeMatmul(const DenseShape& shape, int channels, int outputs, const CpuDevice& device) {
  ConvForwardArgs matmul;
  matmul.shape.panels = 1;
  matmul.shape.in_w = matmul.shape.out_w = static_cast<int>(shape.pixels);
  matmul.shape.channels = channels;
  matmul.shape.outputs = outputs;
  ConvForwardPlan::For(matmul, device).ApplyTo(matmul);
  matmul.y_column = int64_t{outputs} * kLanes;
  return matmul;
}

PackArgs MakeDensePack(const DenseShape& shape, int block) {
  PackArgs pack;
  pack.in = shape.in;
  pack.out = shape.out;
  pack.block = block;
  return pack;
}

}  // namespace

CompiledKernel Compile(CpuDevice& device, const NodeView& node, const DenseOp& op) {
  TY_RETURN_IF_ERROR(RequireBatched(node));
  if (node.in(0).row_major) return CompileRows(device, node, op);
  const DenseShape shape(node.in(0).shape, node.in(1).shape);
  const bool has_bias = op.epilogue.bias;
  const Activation activation = op.epilogue.activation;
  if (device.bf16 != nullptr || !shape.few()) {
    ConvForwardArgs matmul = MakeMatmul(shape, shape.in, shape.out, device);
    matmul.x_in_pairs = node.in(0).narrow;
    matmul.activation = activation;
    PackArgs pack = MakeDensePack(shape, matmul.block);
    const size_t weights = PackedWeightFloats(matmul, device);
    return MakeKernel(
        [&device, matmul, pack, has_bias, weights](const KernelContext& context) mutable {
          pack.weights = context.input<float>(1);
          pack.packed = static_cast<float*>(context.scratch);
          RunPack(pack, device);
          matmul.x = context.input<float>(0);
          matmul.weights = pack.packed;
          matmul.scratch = pack.packed + weights;
          matmul.bias = has_bias ? context.input<float>(2) : nullptr;
          matmul.y = context.output<float>(0);
          RunConvForward(matmul, device);
        },
        (weights + ConvForwardScratchFloats(matmul, device)) * sizeof(float));
  }
  ProductArgs product;
  product.rows = static_cast<int>(shape.x.samples);
  product.columns = shape.out;
  product.k = shape.in;
  product.a_row = 1;
  product.a_k = kLanes;
  product.a_chunk = kLanes * kLanes;
  product.b_k = product.c_row = shape.out;
  product.b_chunk = product.b_k * kLanes;
  return MakeKernel(
      [&device, product, has_bias, activation](const KernelContext& context) mutable {
        product.a = context.input<float>(0);
        product.b = context.input<float>(1);
        product.bias = has_bias ? context.input<float>(2) : nullptr;
        product.c = static_cast<float*>(context.scratch);
        device.kernels.product(product);
        float* y = context.output<float>(0);
        ConvertArgs convert;
        convert.from = product.c;
        convert.to = y;
        convert.samples = product.rows;
        convert.features = product.columns;
        device.kernels.to_panels_f32(convert);
        if (activation != Activation::kIdentity) device.kernels.activate(y, y, product.columns, activation);
      },
      static_cast<size_t>(product.rows) * product.columns * sizeof(float));
}

CompiledKernel Compile(CpuDevice& device, const NodeView& node, const DenseInputGradientOp& op) {
  TY_RETURN_IF_ERROR(RequireBatched(node));
  if (node.in(0).row_major) return CompileRows(device, node, op);
  const DenseShape shape(node.out().shape, node.in(1).shape);
  ConvForwardArgs matmul = MakeMatmul(shape, shape.out, shape.in, device);
  if (device.bf16 != nullptr) {
    matmul.y_in_pairs = node.out().narrow;
    PackArgs pack = MakeDensePack(shape, matmul.block);
    pack.transposed = true;
    const size_t weights = PackedWeightFloats(matmul, device);
    return MakeKernel(
        [&device, matmul, pack, weights](const KernelContext& context) mutable {
          pack.weights = context.input<float>(1);
          pack.packed = static_cast<float*>(context.scratch);
          RunPack(pack, device);
          matmul.x = context.input<float>(0);
          matmul.weights = pack.packed;
          matmul.scratch = pack.packed + weights;
          matmul.y = context.output<float>(0);
          RunConvForward(matmul, device);
        },
        (weights + ConvForwardScratchFloats(matmul, device)) * sizeof(float));
  }
  matmul.packed = false;  // a row of weights is what one dx sums over
  return MakeKernel([&device, matmul](const KernelContext& context) mutable {
    matmul.x = context.input<float>(0);
    matmul.weights = context.input<float>(1);
    matmul.y = context.output<float>(0);
    RunConvForward(matmul, device);
  });
}

CompiledKernel Compile(CpuDevice& device, const NodeView& node, const DenseWeightGradientOp& op) {
  TY_RETURN_IF_ERROR(RequireBatched(node));
  if (node.in(0).row_major) return CompileRows(device, node, op);
  const DenseShape shape(node.in(0).shape, node.out().shape);
  if (device.bf16 != nullptr) {
    return MakeKernel(
        [&device, shape, bias = op.bias, in_pairs = node.in(0).narrow](const KernelContext& context) {
          const float* dz = context.input<float>(1);
          RunBf16DenseWeightGradient({shape.pixels, shape.in, shape.out}, {context.inputs[0], dz, in_pairs, false},
                                     context.output<float>(0), static_cast<float*>(context.scratch), device);
          if (bias) RunBiasGradient(device, dz, context.output<float>(1), shape.pixels, shape.out);
        },
        Bf16DenseWeightGradientScratchFloats({shape.pixels, shape.in, shape.out}) * sizeof(float));
  }
  // Whole vectors, an odd number of them: rows at a power of two would share few lines of the
  // nearest cache.
  const auto stride = (VectorsFor(shape.out) | 1) * kLanes;
  ProductArgs product;  // rows are channels of x, k counts samples
  product.columns = shape.out;
  product.k = static_cast<int>(shape.few() ? shape.x.samples : shape.pixels * kLanes);
  product.a_row = kLanes;
  product.a_k = 1;
  product.a_chunk = int64_t{shape.in} * kLanes;
  product.b_k = stride;
  product.b_chunk = stride * kLanes;
  product.c_row = shape.out;
  return MakeKernel(
      [&device, shape, product, stride, bias = op.bias](const KernelContext& context) {
        const float* x = context.input<float>(0);
        const float* dz = context.input<float>(1);
        float* dw = context.output<float>(0);
        auto* rows = static_cast<float*>(context.scratch);
        device.pool.Run(shape.pixels, [&](int64_t begin, int64_t end, int) {
          device.kernels.panels_to_rows(dz + begin * shape.out * kLanes, rows + begin * kLanes * stride, end - begin, shape.out, stride);
        });
        device.pool.Run(shape.in, [&](int64_t begin, int64_t end, int) {
          ProductArgs part = product;
          part.a = x + begin * kLanes;
          part.b = rows;
          part.c = dw + begin * shape.out;
          part.rows = static_cast<int>(end - begin);
          device.kernels.product(part);
        });
        if (bias) RunBiasGradient(device, dz, context.output<float>(1), shape.pixels, shape.out);
      },
      static_cast<size_t>(shape.pixels) * kLanes * stride * sizeof(float));
}

}  // namespace trainyard::engine
