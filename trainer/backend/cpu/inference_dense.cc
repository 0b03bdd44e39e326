#include <algorithm>
#include <optional>

#include "trainer/backend/cpu/float28_weights.h"
#include "trainer/backend/cpu/inference.h"
#include "trainer/backend/cpu/inference_product.h"
#include "trainer/backend/cpu/layout.h"
#include "trainer/backend/cpu/make_kernel.h"
#include "trainer/base/clock.h"
#include "trainer/tensor/buffer.h"

namespace trainyard::engine {
namespace {

// Of floats: more fit no second cache, and a single row waits for them.
constexpr int64_t kLeastFloat28Bytes = 3 << 20;

// Of a panel: where a sum has some hundred terms, the nearest cache holds it while many rows pass.
constexpr int kMostVectors = 2;

constexpr int64_t kLeastUntriedBytes = 64 << 20;  // so much comes from memory, which is slower than unpacking
constexpr int kTrials = 5;                        // of each product that is timed

template <typename Product>
absl::Duration TimeOf(const Product& product) {
  const absl::Time start = RealClock().Now();
  product();
  return RealClock().Now() - start;
}

// Whether one row is multiplied faster with weights of 28 bits than with floats. That is so where
// memory delivers weights more slowly than they are unpacked. Both products give the same bits.
bool GainsByFloat28(const InferenceProduct& product, const RowsParameters& parameters, RowsWeights floats, const CpuDevice& device) {
  if (product.k * product.columns * static_cast<int64_t>(sizeof(float)) >= kLeastUntriedBytes) return true;
  WeightStore store;  // the memory of the trial
  CpuDevice trial{device.kernels, device.pool, store, device.float28, nullptr};
  const auto packed = Float28Weights::Pack(product.k, product.columns, parameters.weights, parameters.bias, trial);
  if (!packed) return false;
  floats.Pack(parameters, trial);
  Buffer memory(static_cast<size_t>(PaddedFloats(product.k) + PaddedFloats(product.columns)) * sizeof(float));
  InferenceProduct row = product;
  row.x = memory.as<float>();
  row.y = memory.as<float>() + PaddedFloats(product.k);
  absl::Duration by_floats = absl::InfiniteDuration(), by_packed = absl::InfiniteDuration();
  for (int i = 0; i < kTrials; ++i) {
    by_floats = std::min(by_floats, TimeOf([&] { RunInferenceProduct(row, floats, trial); }));
    by_packed = std::min(by_packed, TimeOf([&] { packed->Multiply(row.x, row.y, row.activation, trial); }));
  }
  return by_packed < by_floats;
}

class InferenceDense final : public Kernel {
 public:
  InferenceDense(CpuDevice& device, const NodeView& node, const DenseOp& op)
      : device_(device),
        bias_(op.epilogue.bias),
        weights_(node.in(1).shape[0], node.in(1).shape[1], std::min(kMostVectors, device.kernels.max_rows_vectors)) {
    product_.k = node.in(1).shape[0];
    product_.columns = node.in(1).shape[1];
    product_.rows = node.in(0).shape.elements() / product_.k;
    product_.activation = op.epilogue.activation;
  }

  void Prepare(std::span<const void* const> inputs) override {
    const auto* const weights = static_cast<const float*>(inputs[1]);
    const auto* const bias = bias_ ? static_cast<const float*>(inputs[2]) : nullptr;
    const int64_t bytes = product_.k * product_.columns * static_cast<int64_t>(sizeof(float));
    const RowsParameters parameters{.weights = weights, .bias = bias};
    if (device_.float28 != nullptr && product_.rows == 1 && bytes >= kLeastFloat28Bytes &&
        GainsByFloat28(product_, parameters, weights_, device_)) {
      float28_ = Float28Weights::Pack(product_.k, product_.columns, weights, bias, device_);
    }
    if (!float28_) weights_.Pack(parameters, device_);
  }

  void Run(const KernelContext& context) override {
    if (float28_) return float28_->Multiply(context.input<float>(0), context.output<float>(0), product_.activation, device_);
    product_.x = context.input<float>(0);
    product_.y = context.output<float>(0);
    RunInferenceProduct(product_, weights_, device_);
  }

 private:
  CpuDevice& device_;
  const bool bias_;
  std::optional<Float28Weights> float28_;
  RowsWeights weights_;  // without it
  InferenceProduct product_;
};

}  // namespace

CompiledKernel CompileForInference(CpuDevice& device, const NodeView& node, const DenseOp& op) {
  TY_RETURN_IF_ERROR(RequireBatched(node));
  return std::make_unique<InferenceDense>(device, node, op);
}

}  // namespace trainyard::engine
