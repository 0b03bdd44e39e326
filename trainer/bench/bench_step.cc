#include "trainer/bench/bench_step.h"

#include <fmt/format.h>
#include <time.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>

#include "trainer/backend/cpu/cpu_backend.h"
#include "trainer/backend/executor.h"
#include "trainer/backend/made_up_feeds.h"
#include "trainer/base/cpu_quota.h"
#include "trainer/base/process_usage.h"
#include "trainer/base/status_macros.h"
#include "trainer/bench/memory_bandwidth.h"
#include "trainer/bench/roofline.h"
#include "trainer/model/build_graph.h"
#include "trainer/model/initializer.h"
#include "trainer/model/model_json.h"
#include "trainer/model/presets.h"
#include "trainer/ops/rules.h"
#include "trainer/optim/make_optimizer.h"

namespace trainyard::engine {
namespace {

using SteadyClock = std::chrono::steady_clock;

double MillisecondsSince(SteadyClock::time_point start) {
  return std::chrono::duration<double, std::milli>(SteadyClock::now() - start).count();
}

double ProcessorMilliseconds() {
  timespec now;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return 1e3 * static_cast<double>(now.tv_sec) + 1e-6 * static_cast<double>(now.tv_nsec);
}

double Median(std::vector<double> values) {
  if (values.empty()) return 0.0;
  const auto middle = values.begin() + static_cast<int64_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// The times of every node, step after step.
class NodeTimes final : public NodeObserver {
 public:
  explicit NodeTimes(size_t nodes) : times_(nodes) {}
  void BeforeNode(NodeId) override { start_ = SteadyClock::now(); }
  void AfterNode(NodeId node) override { times_[node].push_back(MillisecondsSince(start_)); }
  void Clear() {
    for (std::vector<double>& times : times_) times.clear();
  }
  const std::vector<double>& of(NodeId node) const { return times_[node]; }

 private:
  SteadyClock::time_point start_;
  std::vector<std::vector<double>> times_;
};

// It reads gradients, and reads and writes values and slots.
BenchLayer OptimizerLayer(const std::string& name, const ParameterSet& parameters, size_t slots, const std::vector<double>& times) {
  int64_t trained = 0;
  for (const ParameterSpec& spec : parameters.specs()) trained += spec.trainable ? spec.shape.elements() : 0;
  const double moved = 1e-6 * static_cast<double>(trained * (3 + 2 * static_cast<int64_t>(slots)) * int64_t{sizeof(float)});
  return {.name = "optimizer", .op = name, .milliseconds = Median(times), .best_milliseconds = std::ranges::min(times), .megabytes = moved};
}

absl::StatusOr<ModelSpec> PresetSpec(const std::string& model) {
  FieldErrors errors;
  ModelSpec spec = ParseModelSpec({{"preset", model}}, "model", errors);
  TY_RETURN_IF_ERROR(errors.ToStatus("--model"));
  return spec;
}

}  // namespace

absl::StatusOr<BenchResult> BenchStep(const BenchOptions& options) {
  if (options.batch < 1 || options.batch > kMaxBatch) {
    return absl::InvalidArgumentError(fmt::format("--batch is {}, expected 1 to {}", options.batch, kMaxBatch));
  }
  TY_ASSIGN_OR_RETURN(const ModelSpec spec, PresetSpec(options.model));
  std::unique_ptr<Backend> of_the_cpu;
  if (options.roofline && options.backend != nullptr) {
    return absl::InvalidArgumentError(fmt::format("--roofline takes --backend cpu, found {}", options.backend->kernels()));
  }
  if (options.backend == nullptr) {
    TY_ASSIGN_OR_RETURN(of_the_cpu, MakeCpuBackend({.threads = options.threads, .isa = options.isa, .precision = options.precision}));
  }
  Backend& backend = options.backend != nullptr ? *options.backend : *of_the_cpu;
  TY_ASSIGN_OR_RETURN(Graph graph, BuildTrainingGraph(spec, options.batch));
  const OptimizerConfig optimizer_config = DefaultOptimizerConfig(options.optimizer);
  TY_ASSIGN_OR_RETURN(const std::unique_ptr<Optimizer> optimizer, MakeOptimizer(optimizer_config));
  const std::vector<ParameterSpec> specs(graph.parameters().begin(), graph.parameters().end());
  TY_ASSIGN_OR_RETURN(const std::unique_ptr<DeviceTraining> on_device,
                      backend.MakeDeviceTraining({.specs = specs, .optimizer = optimizer_config}));
  TY_ASSIGN_OR_RETURN(const std::unique_ptr<Executor> executor, Executor::Create(std::move(graph), backend, {.training = on_device.get()}));
  const Graph& g = executor->graph();
  ParameterSet parameters(specs);
  ParameterSet gradients(specs);
  InitializeParameters(spec, 1, parameters);
  std::vector<ParameterSet> slots;
  for (size_t slot = 0; slot < optimizer->slot_names().size(); ++slot) slots.emplace_back(specs);
  if (on_device != nullptr) TY_RETURN_IF_ERROR(on_device->Load(parameters, slots));
  const MadeUpFeeds feeds(g);
  ParameterSet state({g.states().begin(), g.states().end()});
  NodeTimes node_times(g.nodes().size());
  if (backend.uses_host_memory()) executor->set_observer(&node_times);

  BenchResult result;
  result.options = options;
  if (options.threads == 0) result.options.threads = CpuQuota();
  result.isa = backend.kernels();

  std::vector<double> step_times;
  std::vector<double> optimizer_times;
  std::vector<double> processor_times;
  std::vector<std::span<float>> slot_values(slots.size());
  StepContext step{.seed = 1};
  const auto run_for = [&](double seconds) -> absl::Status {
    const SteadyClock::time_point begin = SteadyClock::now();
    while (step_times.size() < 3 || MillisecondsSince(begin) < 1000.0 * seconds) {
      const double processor_start = ProcessorMilliseconds();
      const SteadyClock::time_point start = SteadyClock::now();
      const UpdateContext update{.learning_rate = 0.01, .step = static_cast<int64_t>(step.step)};
      if (on_device != nullptr) {
        TY_RETURN_IF_ERROR(on_device->BeginStep(update));
        TY_RETURN_IF_ERROR(executor->Train(step, feeds.feeds(), &state).status());
      } else {
        TY_RETURN_IF_ERROR(executor->Run(step, feeds.feeds(), parameters, &gradients, nullptr, &state));
        const SteadyClock::time_point update_start = SteadyClock::now();
        for (int key = 0; key < parameters.size(); ++key) {
          if (!parameters.spec(key).trainable) continue;
          for (size_t slot = 0; slot < slots.size(); ++slot) slot_values[slot] = slots[slot].values(key);
          ApplyGradient(*optimizer, update, parameters.values(key), std::span<const float>(gradients.values(key)), /*row_elements=*/1,
                        slot_values, backend.threads());
        }
        optimizer_times.push_back(MillisecondsSince(update_start));
      }
      step_times.push_back(MillisecondsSince(start));
      processor_times.push_back(ProcessorMilliseconds() - processor_start);
      ++step.step;
    }
    return absl::OkStatus();
  };
  const auto measure_peak = [&]() -> absl::Status {
    if (of_the_cpu == nullptr) return absl::OkStatus();
    TY_ASSIGN_OR_RETURN(const double flops, MeasurePeakFlops(options.isa, options.precision));
    result.peak_gflops = std::max(result.peak_gflops, flops * 1e-9 * result.options.threads);
    return absl::OkStatus();
  };
  TY_RETURN_IF_ERROR(run_for(options.seconds / 10));
  step_times.clear();
  optimizer_times.clear();
  processor_times.clear();
  node_times.Clear();
  const auto measure_memory = [&]() -> absl::Status {
    if (!options.roofline) return absl::OkStatus();
    TY_ASSIGN_OR_RETURN(const double bytes, MeasureMemoryBandwidth(result.options.threads));
    result.memory_gigabytes_per_second = std::max(result.memory_gigabytes_per_second, bytes * 1e-9);
    return absl::OkStatus();
  };
  TY_RETURN_IF_ERROR(measure_memory());
  TY_RETURN_IF_ERROR(measure_peak());
  TY_RETURN_IF_ERROR(run_for(options.seconds / 2));
  TY_RETURN_IF_ERROR(measure_peak());
  TY_RETURN_IF_ERROR(run_for(options.seconds / 2));
  TY_RETURN_IF_ERROR(measure_peak());
  TY_RETURN_IF_ERROR(measure_memory());

  for (NodeId id = 0; id < static_cast<NodeId>(g.nodes().size()); ++id) {
    const double gflop = 1e-9 * static_cast<double>(Flops(g, id));
    result.gflop_per_step += gflop;
    if (node_times.of(id).empty()) continue;
    const double milliseconds = Median(node_times.of(id));
    result.layers.push_back({.name = g.node(id).name,
                             .op = std::string(OpName(g.node(id).op)),
                             .milliseconds = milliseconds,
                             .best_milliseconds = std::ranges::min(node_times.of(id)),
                             .gflop = gflop,
                             .megabytes = 1e-6 * static_cast<double>(BytesMoved(g, id)),
                             .gflops = 1e3 * gflop / std::max(milliseconds, 1e-6)});
  }
  if (!optimizer_times.empty()) result.layers.push_back(OptimizerLayer(options.optimizer, parameters, slots.size(), optimizer_times));
  result.steps = static_cast<int64_t>(step_times.size());
  result.milliseconds_per_step = Median(step_times);
  result.best_milliseconds_per_step = std::ranges::min(step_times);
  result.cpu_milliseconds_per_step = Median(processor_times);
  const NodeId labels = g.Find(kLabelsFeed);
  result.items = labels < 0 ? options.batch : g.node(labels).outputs[0].shape.elements();
  const bool is_sequence = labels >= 0 && g.node(labels).outputs[0].shape.rank() > 1;
  const bool is_image = g.node(g.Find(kInputName)).outputs[0].shape.rank() == 4;
  result.unit = is_sequence ? "words" : is_image ? "images" : "examples";
  result.items_per_second = 1000.0 * static_cast<double>(result.items) / result.milliseconds_per_step;
  result.gflops = 1000.0 * result.gflop_per_step / result.milliseconds_per_step;
  result.megabytes = static_cast<double>(executor->bytes()) * 1e-6;
  result.max_rss_bytes = ReadProcessUsage().peak_resident_bytes;
  return result;
}

std::string BenchJson(const BenchResult& result) {
  nlohmann::ordered_json layers = nlohmann::json::array();
  for (const BenchLayer& layer : result.layers) {
    layers.push_back({{"name", layer.name},
                      {"op", layer.op},
                      {"milliseconds", layer.milliseconds},
                      {"bestMilliseconds", layer.best_milliseconds},
                      {"gflop", layer.gflop},
                      {"megabytes", layer.megabytes},
                      {"gflops", layer.gflops}});
  }
  nlohmann::ordered_json json = {{"model", result.options.model},
                                 {"optimizer", result.options.optimizer},
                                 {"batch", result.options.batch},
                                 {"threads", result.options.threads},
                                 {"isa", result.isa},
                                 {"precision", PrecisionName(result.options.precision)},
                                 {"steps", result.steps},
                                 {"items", result.items},
                                 {"unit", result.unit},
                                 {"itemsPerSecond", result.items_per_second},
                                 {"millisecondsPerStep", result.milliseconds_per_step},
                                 {"bestMillisecondsPerStep", result.best_milliseconds_per_step},
                                 {"cpuMillisecondsPerStep", result.cpu_milliseconds_per_step},
                                 {"gflopPerStep", result.gflop_per_step},
                                 {"gflops", result.gflops},
                                 {"peakGflops", result.peak_gflops},
                                 {"megabytes", result.megabytes},
                                 {"maxRssBytes", result.max_rss_bytes},
                                 {"layers", layers}};
  if (result.options.roofline) {
    json["memoryGigabytesPerSecond"] = result.memory_gigabytes_per_second;
    json["roofline"] = ToJson(RooflineOf(result));
  }
  return json.dump(2) + "\n";
}

std::string BenchText(const BenchResult& result) {
  std::string text =
      fmt::format("{} batch {} on {} thread{} ({}, {}): {:.0f} {}/s, {:.3f} ms a step (best {:.3f}, processor time {:.3f}), {:.1f} GFLOP/s",
                  result.options.model, result.options.batch, result.options.threads, result.options.threads == 1 ? "" : "s",
                  PrecisionName(result.options.precision), result.isa, result.items_per_second, result.unit, result.milliseconds_per_step,
                  result.best_milliseconds_per_step, result.cpu_milliseconds_per_step, result.gflops);
  if (result.peak_gflops > 0) text += fmt::format(" = {:.0f} % of {:.1f}", 100.0 * result.gflops / result.peak_gflops, result.peak_gflops);
  text += '\n';
  if (result.options.roofline) {
    return text + fmt::format("memory: {:.1f} GB/s\n\n", result.memory_gigabytes_per_second) + RooflineText(RooflineOf(result));
  }
  text += fmt::format("{:<36} {:<30} {:>9} {:>9} {:>9}\n", "node", "op", "ms", "best ms", "GFLOP/s");
  for (const BenchLayer& layer : result.layers) {
    text += fmt::format("{:<36} {:<30} {:>9.3f} {:>9.3f} {:>9.1f}\n", layer.name, layer.op, layer.milliseconds, layer.best_milliseconds,
                        layer.gflops);
  }
  return text;
}

}  // namespace trainyard::engine
