#include "trainer/backend/reference/gradient_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "trainer/backend/reference/reference_backend.h"
#include "trainer/base/status_macros.h"

namespace trainyard::engine {
namespace {

class Checker {
 public:
  Checker(Executor& executor, std::span<const Feed> feeds, ParameterSet& params, const GradientCheckOptions& options)
      : executor_(executor), feeds_(feeds), params_(params), grads_({params.specs().begin(), params.specs().end()}), options_(options) {}

  absl::StatusOr<GradientError> Run() {
    TY_RETURN_IF_ERROR(Loss().status());
    const ParameterSet backward = CopyOf(grads_);
    std::vector<std::vector<double>> input_gradients;
    for (const std::string& input : options_.inputs) {
      TY_ASSIGN_OR_RETURN(std::vector<double> gradient, InputGradient(input));
      input_gradients.push_back(std::move(gradient));
    }
    for (const ParameterSpec& spec : params_.specs()) {
      if (!spec.trainable) continue;
      const int key = params_.Find(spec.name);
      const std::span<const float> values = backward.values(key);
      TY_RETURN_IF_ERROR(Compare(fmt::format("parameter '{}'", spec.name), params_.values(key), {values.begin(), values.end()}));
    }
    for (size_t i = 0; i < options_.inputs.size(); ++i) {
      const Tensor& tensor = FeedOf(options_.inputs[i]);
      TY_RETURN_IF_ERROR(Compare(fmt::format("input '{}'", options_.inputs[i]), tensor.values<float>(), input_gradients[i]));
    }
    return worst_;
  }

 private:
  absl::StatusOr<double> Loss() {
    TY_RETURN_IF_ERROR(executor_.Run(options_.context, feeds_, params_, &grads_, nullptr));
    return executor_.Scalar("loss");
  }

  const Tensor& FeedOf(const std::string& input) const { return std::ranges::find(feeds_, input, &Feed::name)->tensor; }

  absl::StatusOr<std::vector<double>> InputGradient(const std::string& input) const {
    const Shape& shape = executor_.graph().node(executor_.graph().Find(input)).outputs[0].shape;
    std::vector<double> gradient(static_cast<size_t>(shape.elements()));
    TY_RETURN_IF_ERROR(executor_.Fetch("gradients/" + input, {DType::kF64, shape, gradient.data()}));
    return gradient;
  }

  absl::Status Compare(const std::string& what, std::span<float> values, const std::vector<double>& backward) {
    for (size_t i = 0; i < values.size(); ++i) {
      const float original = values[i];
      const float above = original + options_.step;
      const float below = original - options_.step;
      values[i] = above;
      TY_ASSIGN_OR_RETURN(const double loss_above, Loss());
      values[i] = below;
      TY_ASSIGN_OR_RETURN(const double loss_below, Loss());
      values[i] = original;
      // Divided by the step that float arithmetic really made.
      const double numeric = (loss_above - loss_below) / (static_cast<double>(above) - static_cast<double>(below));
      const double difference = std::abs(backward[i] - numeric) / std::max(1.0, std::abs(numeric));
      const std::string where = fmt::format("{}, element {}: backward {}, numeric {}", what, i, backward[i], numeric);
      if (!std::isfinite(difference)) return absl::InternalError(where);
      if (difference >= worst_.difference) worst_ = {difference, where};
    }
    return absl::OkStatus();
  }

  Executor& executor_;
  std::span<const Feed> feeds_;
  ParameterSet& params_;
  ParameterSet grads_;
  const GradientCheckOptions& options_;
  GradientError worst_;
};

}  // namespace

absl::StatusOr<GradientError> CheckGradients(const Graph& forward, std::span<const Feed> feeds, ParameterSet& params,
                                             const GradientCheckOptions& options) {
  Graph graph = forward;
  const auto loss = graph.outputs().find("loss");
  if (loss == graph.outputs().end()) return absl::InvalidArgumentError("the graph has no output 'loss'");
  graph.SetLoss(loss->second);
  const std::unique_ptr<Backend> reference = MakeReferenceBackend(DType::kF64);
  Backend& backend = options.backend == nullptr ? *reference : *options.backend;
  TY_ASSIGN_OR_RETURN(const std::unique_ptr<Executor> executor,
                      Executor::Create(graph, backend, {.fuse = options.fuse, .gradients = {.inputs = options.inputs}}));
  return Checker(*executor, feeds, params, options).Run();
}

}  // namespace trainyard::engine
