// A small network under test: a builder, values for all of its inputs, and its results on any
// backend.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "trainer/backend/executor.h"
#include "trainer/backend/reference/gradient_check.h"
#include "trainer/ops/builder.h"
#include "trainer/tensor/buffer.h"
#include "trainer/tensor/parameter_set.h"

namespace trainyard::engine {

// The results of one step.
struct TrialResult {
  std::map<std::string, std::vector<double>> outputs;  // every named real output, row-major
  ParameterSet grads;
};

// For tests: a mistake in using it aborts. Values come from the seed alone. Those of a tensor are
// evenly spaced over (-1, 1) and shuffled: no two are equal and none is 0. So numeric differences
// stay away from the kinks of relu and max-pool.
class Trial {
 public:
  explicit Trial(uint64_t seed = 1) : seed_(seed) {}

  GraphBuilder& builder() { return builder_; }
  const GraphBuilder& builder() const { return builder_; }
  Value Input(std::string_view name, const Shape& shape);
  // Integers in [0, limit).
  Value Labels(std::string_view name, const Shape& shape, int32_t limit);
  Value Parameter(std::string_view name, const Shape& shape, bool trainable = true);
  // Multiplies the values of the parameter made last.
  void Scale(float factor);
  // Names `loss` the output "loss"; it is what training makes small.
  void Loss(Value loss);
  // The loss is the mean squared error of y against an input "target".
  void MeanSquaredLoss(Value y);

  std::vector<Feed> feeds() const;
  // The values of the parameters made so far.
  ParameterSet parameters() const;
  // See CheckGradients.
  absl::StatusOr<GradientError> CheckGradients(const GradientCheckOptions& options = {}) const;
  // One step of forward and backward on `backend`.
  absl::StatusOr<TrialResult> Run(Backend& backend, bool fuse, const StepContext& step = {}) const;
  // The same of a graph that was made of the builder's: the same inputs and parameters.
  absl::StatusOr<TrialResult> RunRewritten(const Graph& graph, Backend& backend, bool fuse = true, const StepContext& step = {}) const;

 private:
  std::vector<float> Draw(int64_t elements);

  struct Fed {
    std::string name;
    Tensor tensor;
    Buffer buffer;
  };
  Tensor Keep(std::string_view name, DType dtype, const Shape& shape);

  uint64_t seed_;
  GraphBuilder builder_;
  std::vector<std::unique_ptr<Fed>> fed_;
  std::vector<std::vector<float>> parameters_;
};

// The largest |a - b| / max(1, |b|) over all outputs and gradients of two results of one trial.
double LargestDifference(const TrialResult& a, const TrialResult& b);

}  // namespace trainyard::engine
