#include "trainer/predict/predictor.h"

#include <fmt/format.h>
#include <malloc.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <numeric>
#include <string_view>
#include <utility>

#include "trainer/base/check.h"
#include "trainer/base/status_macros.h"
#include "trainer/base/thread_pool.h"
#include "trainer/data/memory_dataset.h"
#include "trainer/data/stages/pipeline.h"
#include "trainer/model/build_graph.h"
#include "trainer/model/one_step.h"
#include "trainer/predict/batch_part.h"
#include "trainer/tensor/pixel_scale.h"
#include "trainer/train/model_runner.h"

namespace trainyard::engine {
namespace {

constexpr int64_t kMostExamples = 64;
constexpr int64_t kBatchBytes = 64 << 20;
constexpr int64_t kCacheBytes = 2 << 20;  // of a core's second cache

// The examples as a data set, so that the stages of training and evaluation do here what they do
// there.
std::unique_ptr<Dataset> DatasetOf(const Shape& example_shape, DType dtype, std::span<const std::byte> bytes, int64_t examples) {
  Buffer x(bytes.size());
  if (!bytes.empty()) std::memcpy(x.data(), bytes.data(), bytes.size());
  DatasetInfo info{.name = "the examples", .examples = examples, .files = {}, .example_shape = example_shape, .x_dtype = dtype};
  info.x_scale = dtype == DType::kU8 ? kPixelScale : 1.0F;
  Buffer no_labels(static_cast<size_t>(examples) * SizeOf(info.y_dtype));
  return std::make_unique<MemoryDataset>(std::move(info), std::move(x), std::move(no_labels));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Predictor>> Predictor::Create(const TrainedModel& model, Backend& backend) {
  // What the bytes of the checkpoint lay in goes back to the system before weights are made of
  // them.
  malloc_trim(0);
  std::unique_ptr<Predictor> predictor(new Predictor(model, backend));
  predictor->spec_ = model.description.training.model;
  ModelSpec& spec = predictor->spec_;
  if (spec.vocabulary > 0) {
    if (!model.vocabulary) return absl::InvalidArgumentError(fmt::format("checkpoint {}: its vocabulary is not known", model.checkpoint));
    TY_ASSIGN_OR_RETURN(spec, OneStepOf(std::move(spec)));
  }
  TY_ASSIGN_OR_RETURN(predictor->classes_, ClassCountOf(spec));
  TY_ASSIGN_OR_RETURN(predictor->output_shape_, OutputShapeOf(spec));
  if (spec.vocabulary > 0) predictor->output_shape_ = Shape({predictor->classes_});
  if (predictor->classes_ > 0 && predictor->output_shape_.rank() > 1) {
    return absl::InvalidArgumentError(
        fmt::format("checkpoint {}: model '{}' gives each of its steps a class; `predict` takes models that give "
                    "an example one class or numbers",
                    model.checkpoint, spec.name));
  }
  TY_ASSIGN_OR_RETURN(const Graph graph, BuildInferenceGraph(spec, /*batch=*/1));
  for (const ParameterSpec& state : graph.states()) predictor->state_size_ += state.row_elements();
  if (predictor->reads_text()) predictor->reader_.emplace(spec, model.parameters, backend);
  TY_RETURN_IF_ERROR(predictor->Begin());
  return predictor;
}

absl::Status Predictor::Begin() {
  first_.assign(static_cast<size_t>(state_size_), 0);
  if (!reads_text()) return absl::OkStatus();
  std::array<RowState*, 1> states = {&first_};
  if (model_.first_row.size() > 0) Scatter(model_.first_row, states);
  const std::string_view line_end = model_.vocabulary->kind() == TokenKind::kWords ? kEndOfLine : "\n";
  const int32_t token = model_.vocabulary->Find(line_end).value_or(0);
  return Predict(DType::kI32, std::as_bytes(std::span(&token, 1)), 1, states).status();
}

int64_t Predictor::batch_size() const {
  const int64_t bytes = example_shape().elements() * static_cast<int64_t>(sizeof(float));
  return std::clamp<int64_t>(kBatchBytes / std::max<int64_t>(1, bytes), 1, kMostExamples);
}

absl::StatusOr<Predictor::Compiled*> Predictor::CompiledFor(int64_t examples) {
  Compiled& compiled = compiled_[examples];
  if (!compiled.executor) {
    TY_ASSIGN_OR_RETURN(Graph graph, BuildInferenceGraph(spec_, examples));
    TY_ASSIGN_OR_RETURN(compiled.executor, Executor::Create(std::move(graph), backend_, {.inference = &model_.parameters}));
    compiled.state = ZeroState(compiled.executor->graph());
  }
  return &compiled;
}

// An example's bits do not depend on its part of a batch.
absl::StatusOr<int64_t> Predictor::ExamplesAtATime(int64_t examples) {
  if (examples == 1 || state_size_ > 0 || !backend_.uses_host_memory()) return examples;
  TY_ASSIGN_OR_RETURN(const Compiled* const one, CompiledFor(1));
  const MemoryPlan& plan = one->executor->plan();
  const int64_t threads = backend_.threads() == nullptr ? 1 : backend_.threads()->threads();
  return BatchPart(examples, threads,
                   {.parameters = model_.parameters.elements() * static_cast<int64_t>(sizeof(float)),
                    .values = static_cast<int64_t>(plan.unshared_bytes),
                    .arena = static_cast<int64_t>(plan.arena_bytes),
                    .caches = kCacheBytes * threads});
}

void Predictor::Gather(std::span<RowState* const> states, ParameterSet& to) const {
  size_t at = 0;
  for (int i = 0; i < to.size(); ++i) {
    const auto each = static_cast<size_t>(to.spec(i).row_elements());
    const std::span<float> values = to.values(i);
    for (size_t row = 0; row < values.size() / each; ++row) {
      const RowState& from = row < states.size() && !states[row]->empty() ? *states[row] : first_;
      std::ranges::copy(std::span(from).subspan(at, each), values.begin() + static_cast<ptrdiff_t>(row * each));
    }
    at += each;
  }
}

void Predictor::Scatter(const ParameterSet& from, std::span<RowState* const> states) {
  for (size_t row = 0; row < states.size(); ++row) {
    states[row]->clear();
    for (int i = 0; i < from.size(); ++i) {
      const auto each = static_cast<size_t>(from.spec(i).row_elements());
      const std::span<const float> values = from.values(i).subspan(row * each, each);
      states[row]->insert(states[row]->end(), values.begin(), values.end());
    }
  }
}

std::span<const float> Predictor::InLabelUnit(std::span<const float> found) {
  const std::optional<LabelScale>& scale = model_.description.training.data.label_scale;
  if (!scale) return found;
  values_.resize(found.size());
  std::ranges::transform(found, values_.begin(), [&](float value) { return scale->LabelOf(value); });
  return values_;
}

absl::StatusOr<std::span<const float>> Predictor::Predict(DType dtype, std::span<const std::byte> bytes, int64_t examples,
                                                          std::span<RowState* const> states) {
  TY_CHECK(examples > 0 &&
           static_cast<int64_t>(bytes.size()) == examples * example_shape().elements() * static_cast<int64_t>(SizeOf(dtype)));
  TY_CHECK((dtype == DType::kI32) == reads_text() && static_cast<int64_t>(states.size()) <= examples);
  Batch batch;
  if (reads_text()) {
    batch.x = {DType::kI32, Shape({examples, 1}), const_cast<std::byte*>(bytes.data())};
  } else {
    TY_ASSIGN_OR_RETURN(const std::unique_ptr<Dataset> dataset, WithStages(DatasetOf(example_shape(), dtype, bytes, examples),
                                                                           model_.description.transforms, /*training=*/false, /*seed=*/0));
    std::vector<int64_t> all(static_cast<size_t>(examples));
    std::iota(all.begin(), all.end(), 0);
    TY_RETURN_IF_ERROR(dataset->Read(all, batch));
  }
  const std::string_view output = classes_ > 0 ? kProbabilitiesOutput : kPredictionOutput;
  TY_ASSIGN_OR_RETURN(const int64_t at_a_time, ExamplesAtATime(examples));
  const int64_t example_bytes = example_shape().elements() * static_cast<int64_t>(SizeOf(batch.x.dtype));
  for (int64_t begin = 0; begin < examples; begin += at_a_time) {
    const int64_t count = std::min(at_a_time, examples - begin);
    TY_ASSIGN_OR_RETURN(Compiled* const compiled, CompiledFor(count));
    Gather(states, compiled->state);
    Tensor x = {batch.x.dtype, batch.x.shape, static_cast<std::byte*>(batch.x.data) + begin * example_bytes};
    x.shape.Set(0, count);
    const std::array feeds = {Feed{.name = kInputName, .tensor = x}};
    TY_RETURN_IF_ERROR(compiled->executor->Run({.training = false}, feeds, model_.parameters, nullptr, nullptr, &compiled->state));
    Scatter(compiled->state, states);
    if (count == examples) {
      if (const std::span<const float> found = compiled->executor->View(output); !found.empty()) return InLabelUnit(found);
    }
    std::vector<int64_t> extents{count};
    if (reads_text()) extents.push_back(1);  // step
    extents.insert(extents.end(), output_shape_.extents().begin(), output_shape_.extents().end());
    values_.resize(static_cast<size_t>(examples * outputs()));
    TY_RETURN_IF_ERROR(compiled->executor->Fetch(output, {DType::kF32, Shape(extents), values_.data() + begin * outputs()}));
  }
  return InLabelUnit(values_);
}

absl::Status Predictor::Read(std::span<const int32_t> tokens, int64_t length, std::span<RowState* const> states) {
  TY_CHECK(reads_text() && !states.empty() && tokens.size() == states.size() * static_cast<size_t>(length));
  if (state_size_ == 0) return absl::OkStatus();
  // Powers of two, as in `serve`: few of them are compiled.
  const auto rows = static_cast<int64_t>(std::bit_ceil(states.size()));
  TY_ASSIGN_OR_RETURN(Compiled* const compiled, CompiledFor(rows));
  tokens_.assign(tokens.begin(), tokens.end());
  tokens_.resize(static_cast<size_t>(rows * length));
  Gather(states, compiled->state);
  TY_RETURN_IF_ERROR(reader_->Read(rows, length, tokens_, compiled->state));
  Scatter(compiled->state, states);
  return absl::OkStatus();
}

}  // namespace trainyard::engine
