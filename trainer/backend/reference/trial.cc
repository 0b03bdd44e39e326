#include "trainer/backend/reference/trial.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "trainer/base/status_macros.h"
#include "trainer/ops/philox.h"

namespace trainyard::engine {
namespace {

// The same shuffle on every platform.
std::vector<int64_t> Permutation(int64_t size, uint64_t seed) {
  std::vector<int64_t> order(static_cast<size_t>(size));
  std::iota(order.begin(), order.end(), 0);
  const PhiloxStream stream(seed, 0, 0, 0);
  for (int64_t i = size - 1; i > 0; --i) std::swap(order[i], order[stream.Words(0, static_cast<uint32_t>(i))[0] % (i + 1)]);
  return order;
}

Value Checked(absl::StatusOr<Value> value) {
  TY_CHECK(value.ok());
  return *value;
}

}  // namespace

std::vector<float> Trial::Draw(int64_t elements) {
  std::vector<float> values;
  for (int64_t place : Permutation(elements, seed_++)) {
    values.push_back(static_cast<float>(
        (2.0 * static_cast<double>(place) + 1.0 + 0.25 / static_cast<double>(elements)) / static_cast<double>(elements) - 1.0));
  }
  return values;
}

Tensor Trial::Keep(std::string_view name, DType dtype, const Shape& shape) {
  auto fed = std::make_unique<Fed>(Fed{std::string(name), {dtype, shape, nullptr}, {}});
  fed->buffer = Buffer(fed->tensor.bytes());
  fed->tensor.data = fed->buffer.data();
  fed_.push_back(std::move(fed));
  return fed_.back()->tensor;
}

Value Trial::Input(std::string_view name, const Shape& shape) {
  std::ranges::copy(Draw(shape.elements()), Keep(name, DType::kF32, shape).values<float>().begin());
  return Checked(builder_.Input(name, shape));
}

Value Trial::Labels(std::string_view name, const Shape& shape, int32_t limit) {
  const std::vector<int64_t> places = Permutation(shape.elements(), seed_++);
  std::ranges::transform(places, Keep(name, DType::kI32, shape).values<int32_t>().begin(),
                         [&](int64_t place) { return static_cast<int32_t>(place % limit); });
  return Checked(builder_.IntegerInput(name, shape, limit));
}

Value Trial::Parameter(std::string_view name, const Shape& shape, bool trainable) {
  parameters_.push_back(Draw(shape.elements()));
  return Checked(builder_.Parameter(name, shape, trainable));
}

void Trial::Scale(float factor) {
  for (float& value : parameters_.back()) value *= factor;
}

void Trial::Loss(Value loss) {
  TY_CHECK(builder_.Output("loss", loss).ok());
  builder_.Loss(loss);
}

void Trial::MeanSquaredLoss(Value y) {
  const Value target = Input("target", builder_.spec(y).shape);
  Loss(Checked(builder_.MeanSquaredError("loss", y, target)));
}

std::vector<Feed> Trial::feeds() const {
  std::vector<Feed> feeds;
  for (const std::unique_ptr<Fed>& fed : fed_) feeds.push_back({fed->name, fed->tensor});
  return feeds;
}

ParameterSet Trial::parameters() const {
  const std::span<const ParameterSpec> specs = builder_.graph().parameters();
  TY_CHECK(specs.size() == parameters_.size());
  ParameterSet set({specs.begin(), specs.end()});
  for (int key = 0; key < set.size(); ++key) std::ranges::copy(parameters_[key], set.values(key).begin());
  return set;
}

absl::StatusOr<GradientError> Trial::CheckGradients(const GradientCheckOptions& options) const {
  ParameterSet params = parameters();
  return engine::CheckGradients(builder_.graph(), feeds(), params, options);
}

absl::StatusOr<TrialResult> Trial::Run(Backend& backend, bool fuse, const StepContext& step) const {
  return RunRewritten(builder_.graph(), backend, fuse, step);
}

absl::StatusOr<TrialResult> Trial::RunRewritten(const Graph& graph, Backend& backend, bool fuse, const StepContext& step) const {
  TY_ASSIGN_OR_RETURN(const std::unique_ptr<Executor> executor, Executor::Create(graph, backend, {.fuse = fuse}));
  const ParameterSet params = parameters();
  TrialResult result{{}, ParameterSet({params.specs().begin(), params.specs().end()})};
  TY_RETURN_IF_ERROR(executor->Run(step, feeds(), params, &result.grads, nullptr));
  for (const auto& [name, value] : executor->graph().outputs()) {
    const ValueSpec& spec = executor->graph().spec(value);
    std::vector<double> values(static_cast<size_t>(spec.shape.elements()));
    TY_RETURN_IF_ERROR(executor->Fetch(name, {DType::kF64, spec.shape, values.data()}));
    result.outputs[name] = std::move(values);
  }
  return result;
}

double LargestDifference(const TrialResult& a, const TrialResult& b) {
  double largest = 0.0;
  const auto compare = [&](double x, double y) {
    const double difference = std::abs(x - y) / std::max(1.0, std::abs(y));
    largest = std::isnan(difference) ? INFINITY : std::max(largest, difference);
  };
  TY_CHECK(a.outputs.size() == b.outputs.size() && a.grads.size() == b.grads.size());
  for (const auto& [name, values] : a.outputs) {
    for (size_t i = 0; i < values.size(); ++i) compare(values[i], b.outputs.at(name)[i]);
  }
  for (int key = 0; key < a.grads.size(); ++key) {
    for (size_t i = 0; i < a.grads.values(key).size(); ++i) compare(a.grads.values(key)[i], b.grads.values(key)[i]);
  }
  return largest;
}

}  // namespace trainyard::engine
