#include "trainer/ops/epilogue.h"

namespace trainyard::engine {

Value EpilogueGradient(const Epilogue& epilogue, const ValueSpec& z_spec, GradientContext& context) {
  const Value dy = context.output_gradient();
  const bool activated = epilogue.activation != Activation::kIdentity;
  if (epilogue.max_pool) {
    std::vector<Value> inputs = {dy, context.output(1)};
    if (activated) inputs.push_back(context.output(0));
    return {context.Add("epilogue", MaxPoolGradientOp{*epilogue.max_pool, epilogue.activation}, std::move(inputs), {z_spec}), 0};
  }
  if (!activated) return dy;
  return {context.Add("epilogue", ActivationGradientOp{epilogue.activation}, {dy, context.output(0)}, {z_spec}), 0};
}

int64_t EpilogueFlops(const Epilogue& epilogue, int64_t z_elements, int64_t out_elements) {
  int64_t flops = epilogue.bias ? z_elements : 0;
  if (epilogue.add) flops += z_elements;
  if (epilogue.max_pool) flops += out_elements * epilogue.max_pool->size[0] * epilogue.max_pool->size[1];
  if (epilogue.activation != Activation::kIdentity) flops += out_elements;
  if (epilogue.moments) flops += 3 * out_elements;
  return flops;
}

}  // namespace trainyard::engine
