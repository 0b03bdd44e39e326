#include "trainer/bench/bench_predict.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "trainer/backend/cpu/cpu_backend.h"
#include "trainer/base/cpu_quota.h"
#include "trainer/base/process_usage.h"
#include "trainer/base/status_macros.h"
#include "trainer/bench/bench_limits.h"
#include "trainer/predict/load_text.h"
#include "trainer/predict/predictor.h"
#include "trainer/predict/trained_model.h"
#include "trainer/tensor/buffer.h"

namespace trainyard::engine {
namespace {

constexpr size_t kLeastCalls = 20;

using SteadyClock = std::chrono::steady_clock;

double MicrosecondsSince(SteadyClock::time_point start) {
  return std::chrono::duration<double, std::micro>(SteadyClock::now() - start).count();
}

// Random bytes, or tokens below the number of classes.
Buffer MadeUpExamples(const Predictor& predictor, int64_t examples) {
  const int64_t elements = examples * predictor.example_shape().elements();
  Buffer values(static_cast<size_t>(elements) * (predictor.reads_text() ? sizeof(int32_t) : 1));
  for (int64_t i = 0; i < elements; ++i) {
    const uint32_t random = static_cast<uint32_t>(i) * 2654435761U >> 8;
    if (predictor.reads_text()) {
      values.as<int32_t>()[i] = static_cast<int32_t>(random % static_cast<uint32_t>(predictor.classes()));
    } else {
      values.as<uint8_t>()[i] = static_cast<uint8_t>(random);
    }
  }
  return values;
}

}  // namespace

absl::StatusOr<PredictBenchResult> BenchPredict(const PredictBenchOptions& options) {
  if (options.batch < 1 || options.batch > kMostBenchExamples) {
    return absl::InvalidArgumentError(fmt::format("--batch is {}, expected 1 to {}", options.batch, kMostBenchExamples));
  }
  TY_ASSIGN_OR_RETURN(TrainedModel model, LoadTrainedModel({.path = options.checkpoint}));
  TY_RETURN_IF_ERROR(LoadText(model));
  TY_ASSIGN_OR_RETURN(const std::unique_ptr<Backend> backend, MakeCpuBackend({.threads = options.threads, .isa = options.isa}));
  TY_ASSIGN_OR_RETURN(const std::unique_ptr<Predictor> predictor, Predictor::Create(model, *backend));
  const Buffer examples = MadeUpExamples(*predictor, options.batch);
  const DType dtype = predictor->reads_text() ? DType::kI32 : DType::kU8;
  std::vector<RowState> states(predictor->state_size() > 0 ? static_cast<size_t>(options.batch) : 0);
  std::vector<RowState*> rows;
  for (RowState& state : states) rows.push_back(&state);

  std::vector<double> times;
  const auto run_for = [&](double seconds) -> absl::Status {
    times.clear();
    const SteadyClock::time_point begin = SteadyClock::now();
    while (times.size() < kLeastCalls || MicrosecondsSince(begin) < 1e6 * seconds) {
      const SteadyClock::time_point start = SteadyClock::now();
      TY_RETURN_IF_ERROR(predictor->Predict(dtype, {examples.data(), examples.size()}, options.batch, rows).status());
      times.push_back(MicrosecondsSince(start));
    }
    return absl::OkStatus();
  };
  TY_RETURN_IF_ERROR(run_for(options.seconds / 10));
  TY_RETURN_IF_ERROR(run_for(options.seconds));
  std::ranges::sort(times);

  PredictBenchResult result{.options = options, .isa = std::string(backend->kernels())};
  if (options.threads == 0) result.options.threads = CpuQuota();
  result.calls = static_cast<int64_t>(times.size());
  result.median_microseconds = times[times.size() / 2];
  result.p99_microseconds = times[times.size() * 99 / 100];
  result.best_microseconds = times.front();
  result.max_rss_bytes = ReadProcessUsage().peak_resident_bytes;
  return result;
}

std::string PredictBenchJson(const PredictBenchResult& result) {
  const nlohmann::ordered_json json = {{"checkpoint", result.options.checkpoint},
                                       {"batch", result.options.batch},
                                       {"threads", result.options.threads},
                                       {"isa", result.isa},
                                       {"calls", result.calls},
                                       {"medianMicroseconds", result.median_microseconds},
                                       {"p99Microseconds", result.p99_microseconds},
                                       {"bestMicroseconds", result.best_microseconds},
                                       {"maxRssBytes", result.max_rss_bytes}};
  return json.dump(2) + "\n";
}

std::string PredictBenchText(const PredictBenchResult& result) {
  const PredictBenchOptions& options = result.options;
  return fmt::format("{} batch {} on {} thread{} ({}): {:.1f} us a call (p99 {:.1f}, best {:.1f}), {:.0f} examples/s, {} MiB at most\n",
                     options.checkpoint, options.batch, options.threads, options.threads == 1 ? "" : "s", result.isa,
                     result.median_microseconds, result.p99_microseconds, result.best_microseconds,
                     1e6 * static_cast<double>(options.batch) / result.median_microseconds, result.max_rss_bytes >> 20);
}

}  // namespace trainyard::engine
