#include "trainer/backend/cuda/planned_convolution.h"
#include "trainer/backend/cuda/window_place.h"
#include "trainer/base/check.h"
#include "trainer/base/status_macros.h"

namespace trainyard::engine::cuda {
namespace {

ConvolutionSizes SizesOf(const Window& window, const Shape& x, int64_t filters) { return {x[0], PlaceOf(window, x), filters}; }

}  // namespace

// A pool takes bias and activation in.
Planned PlanNode(const Planner& planner, const NodeView& node, const Conv2dOp& op) {
  TY_CHECK(!op.epilogue.batch_norm && !op.epilogue.add);
  const ConvolutionSizes sizes = SizesOf(op.window, node.in(0).shape, node.in(1).shape[3]);
  const bool pools = op.epilogue.max_pool.has_value();
  ScratchLayout scratch;
  const ScratchPart<float> pooled_from = scratch.Add<float>(pools ? sizes.z_elements() : 0);
  const NarrowImages narrow{.x = node.in(0).narrow, .z = node.out().narrow};
  TY_ASSIGN_OR_RETURN(const PlannedConvolution product,
                      PlannedConvolution::Make(planner, sizes, ConvolutionPart::kOutput, narrow, op.epilogue.bias && !pools, scratch));
  WindowPlace pool{};
  if (pools) pool = PlaceOf(*op.epilogue.max_pool, {sizes.samples, sizes.window.out[0], sizes.window.out[1], sizes.filters});
  return NodePlan{[&device = planner.device, op, product, pooled_from, pool,
                   count = node.out().shape.elements()](const KernelContext& context) -> absl::Status {
                    const OutputWork after{op.epilogue.bias ? context.input<float>(2) : nullptr, op.epilogue.activation};
                    float* const z = pooled_from.In(context);
                    const void* const x = context.input<void>(0);
                    const float* const w = context.input<float>(1);
                    if (z == nullptr) return product.Run(context, x, w, nullptr, context.output<void>(0), after);
                    TY_RETURN_IF_ERROR(product.Run(context, x, w, nullptr, z));
                    return device.Launch(Each<MaxPool<float>>{
                        {z, after.bias, context.output<float>(0), context.output<uint8_t>(1), pool, after.activation}, count});
                  },
                  scratch.bytes()};
}

Planned PlanNode(const Planner& planner, const NodeView& node, const Conv2dInputGradientOp& op) {
  const ConvolutionSizes sizes = SizesOf(op.window, node.out().shape, node.in(1).shape[3]);
  ScratchLayout scratch;
  const NarrowImages narrow{.x = node.out().narrow, .z = node.in(0).narrow};
  TY_ASSIGN_OR_RETURN(const PlannedConvolution product,
                      PlannedConvolution::Make(planner, sizes, ConvolutionPart::kInputGradient, narrow, /*bias=*/false, scratch));
  return NodePlan{[product](const KernelContext& context) {
                    return product.Run(context, nullptr, context.input<float>(1), context.input<void>(0), context.output<void>(0));
                  },
                  scratch.bytes()};
}

Planned PlanNode(const Planner& planner, const NodeView& node, const Conv2dWeightGradientOp& op) {
  const ConvolutionSizes sizes = SizesOf(op.window, node.in(0).shape, node.in(1).shape[3]);
  const int64_t pixels = sizes.samples * sizes.out_pixels();
  ScratchLayout scratch;
  const NarrowImages narrow{.x = node.in(0).narrow, .z = node.in(1).narrow};
  TY_ASSIGN_OR_RETURN(const PlannedConvolution product,
                      PlannedConvolution::Make(planner, sizes, ConvolutionPart::kWeightGradient, narrow, /*bias=*/false, scratch));
  const ScratchPart<void> partial = scratch.AddBytes<void>(op.bias ? PartialBytes<SumRows<float>>(sizes.filters, pixels) : 0);
  return NodePlan{[&device = planner.device, op, product, partial, sizes, pixels,
                   element = planner.ElementOf(narrow.z)](const KernelContext& context) -> absl::Status {
                    const void* const dz = context.input<void>(1);
                    TY_RETURN_IF_ERROR(product.Run(context, context.input<void>(0), nullptr, dz, context.output<float>(0)));
                    float* const db = op.bias ? context.output<float>(1) : nullptr;
                    if (db == nullptr) return absl::OkStatus();
                    return WithElement(element, [&]<typename T>() {
                      const SumRows<T> sum{{}, static_cast<const T*>(dz), db, sizes.filters};
                      return device.Launch(Reduce<SumRows<T>>{sum, sizes.filters, pixels, partial.In(context)});
                    });
                  },
                  scratch.bytes()};
}

}  // namespace trainyard::engine::cuda
