#include "trainer/backend/reference/rounded_operands.h"

#include <algorithm>
#include <array>
#include <memory>
#include <utility>
#include <vector>

namespace trainyard::engine::reference {

template <typename T>
RunFunction WithRoundedOperands(RunFunction run, const NodeView& node, Precision precision) {
  struct Memory {
    std::array<std::vector<T>, 2> operands;
    std::vector<const void*> inputs;
  };
  auto memory = std::make_shared<Memory>();
  for (int i = 0; i < 2; ++i) memory->operands[i].resize(static_cast<size_t>(node.in(i).shape.elements()));
  memory->inputs.resize(static_cast<size_t>(node.input_count()));
  return [run = std::move(run), memory, precision](const KernelContext& context) {
    std::ranges::copy(context.inputs, memory->inputs.begin());
    for (int i = 0; i < 2; ++i) {
      std::vector<T>& operand = memory->operands[i];
      std::transform(context.input<T>(i), context.input<T>(i) + operand.size(), operand.begin(),
                     [precision](T x) { return Operand(x, precision); });
      memory->inputs[i] = operand.data();
    }
    run({.inputs = memory->inputs, .outputs = context.outputs, .scratch = context.scratch, .step = context.step});
  };
}

template <typename T>
RunFunction WithRoundedOperandsButSums(RunFunction run, const NodeView& node, Precision precision) {
  auto unused = std::make_shared<std::vector<T>>(static_cast<size_t>(node.out().shape.elements()));
  RunFunction rounded = WithRoundedOperands<T>(run, node, precision);
  return [run = std::move(run), rounded = std::move(rounded), unused](const KernelContext& context) {
    rounded(context);
    if (context.outputs.size() < 2 || context.outputs[1] == nullptr) return;
    const std::array<void*, 2> outputs = {unused->data(), context.outputs[1]};
    run({.inputs = context.inputs, .outputs = outputs, .scratch = context.scratch, .step = context.step});
  };
}

template <typename T>
RunFunction WithRoundedOutput(RunFunction run, const NodeView& node, Precision precision) {
  return [run = std::move(run), elements = node.out().shape.elements(), precision](const KernelContext& context) {
    run(context);
    T* const y = context.output<T>(0);
    std::transform(y, y + elements, y, [precision](T x) { return Operand(x, precision); });
  };
}

template RunFunction WithRoundedOutput<float>(RunFunction, const NodeView&, Precision);
template RunFunction WithRoundedOutput<double>(RunFunction, const NodeView&, Precision);
template RunFunction WithRoundedOperands<float>(RunFunction, const NodeView&, Precision);
template RunFunction WithRoundedOperands<double>(RunFunction, const NodeView&, Precision);
template RunFunction WithRoundedOperandsButSums<float>(RunFunction, const NodeView&, Precision);
template RunFunction WithRoundedOperandsButSums<double>(RunFunction, const NodeView&, Precision);

}  // namespace trainyard::engine::reference
