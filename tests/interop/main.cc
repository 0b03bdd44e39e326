// export_networks FOLDER: FOLDER/networks.json is a list of {"name", "batch", "model"}, with models
// as job files have them. Writes FOLDER/NAME.onnx of each, with start values that are moved a
// little, and FOLDER/NAME.safetensors: the graph's inputs, random numbers ("in:input"), and its
// outputs as the kernels of trainings ("evaluated:logits") and those of predictions compute them
// ("predicted:logits"). Many networks in one process, for onnx_test.py.
#include <fmt/format.h>

#include <array>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "trainer/backend/cpu/cpu_backend.h"
#include "trainer/backend/executor.h"
#include "trainer/base/file.h"
#include "trainer/base/status_macros.h"
#include "trainer/model/build_graph.h"
#include "trainer/model/initializer.h"
#include "trainer/model/model_json.h"
#include "trainer/onnx/export_model.h"
#include "trainer/tensor/safetensors.h"

namespace trainyard::engine {
namespace {

constexpr size_t kMostBytes = 16 << 20;

// The same numbers on every machine.
class Random {
 public:
  // In [low, high).
  float Number(float low, float high) { return low + (high - low) * static_cast<float>(words_() >> 40) * 0x1.0p-24F; }
  int32_t Below(int64_t limit) { return static_cast<int32_t>(words_() % static_cast<uint64_t>(limit)); }

 private:
  std::mt19937_64 words_{7};
};

ParameterSet MovedStartValues(const ModelSpec& spec) {
  ParameterSet parameters(*ParameterSpecsOf(spec));
  InitializeParameters(spec, /*seed=*/1, parameters);
  Random random;
  for (int key = 0; key < parameters.size(); ++key) {
    const bool variance = parameters.spec(key).name.ends_with("moving_variance");
    for (float& value : parameters.values(key)) value = variance ? random.Number(0.5F, 2) : value + random.Number(-0.1F, 0.1F);
  }
  return parameters;
}

// The tensors of one network's run; owns their elements.
class Run {
 public:
  void Add(const std::string& name, const ValueSpec& spec) {
    bytes_.push_back(std::make_unique<std::vector<std::byte>>(static_cast<size_t>(spec.shape.elements()) * SizeOf(spec.dtype)));
    tensors_.push_back({name, {spec.dtype, spec.shape, bytes_.back()->data()}});
  }
  const Tensor& last() const { return tensors_.back().tensor; }
  const std::vector<NamedTensor>& tensors() const { return tensors_; }

 private:
  std::vector<std::unique_ptr<std::vector<std::byte>>> bytes_;
  std::vector<NamedTensor> tensors_;
};

// Adds what `executor` makes of the inputs in `run`.
absl::Status AddOutputs(Executor& executor, const std::string& prefix, const ParameterSet& parameters, const ParameterSet& start,
                        Run& run) {
  const Graph& graph = executor.graph();
  ParameterSet state = CopyOf(start);
  const std::array feeds = {Feed{.name = kInputName, .tensor = run.tensors().front().tensor}};
  TY_RETURN_IF_ERROR(executor.Run({.training = false}, feeds, parameters, nullptr, nullptr, &state));
  for (const auto& [name, value] : graph.outputs()) {
    run.Add(prefix + name, graph.spec(value));
    TY_RETURN_IF_ERROR(executor.Fetch(name, run.last()));
  }
  for (int i = 0; i < state.size(); ++i) {
    run.Add(fmt::format("{}{}_next", prefix, state.spec(i).name), {.dtype = DType::kF32, .shape = state.spec(i).shape});
    std::ranges::copy(state.values(i), run.last().values<float>().begin());
  }
  return absl::OkStatus();
}

absl::Status RunNetwork(const ModelSpec& spec, int64_t batch, const ParameterSet& parameters, Run& run) {
  TY_ASSIGN_OR_RETURN(const Graph graph, BuildInferenceGraph(spec, batch));
  TY_ASSIGN_OR_RETURN(const std::unique_ptr<Backend> backend, MakeCpuBackend({.threads = 1}));
  Random random;
  run.Add(fmt::format("in:{}", kInputName), graph.node(graph.inputs()[0]).outputs[0]);
  const Tensor input = run.last();
  if (spec.vocabulary > 0) {
    for (int32_t& token : input.values<int32_t>()) token = random.Below(spec.vocabulary);
  } else {
    for (float& number : input.values<float>()) number = random.Number(-1, 1);
  }
  ParameterSet state({graph.states().begin(), graph.states().end()});
  for (int i = 0; i < state.size(); ++i) {
    for (float& number : state.values(i)) number = random.Number(-1, 1);
    run.Add("in:" + state.spec(i).name, {.dtype = DType::kF32, .shape = state.spec(i).shape});
    std::ranges::copy(state.values(i), run.last().values<float>().begin());
  }
  for (const bool inference : {false, true}) {
    TY_ASSIGN_OR_RETURN(const std::unique_ptr<Executor> executor,
                        Executor::Create(graph, *backend, {.inference = inference ? &parameters : nullptr}));
    TY_RETURN_IF_ERROR(AddOutputs(*executor, inference ? "predicted:" : "evaluated:", parameters, state, run));
  }
  return absl::OkStatus();
}

absl::Status ExportNetwork(const nlohmann::json& network, const std::string& folder) {
  FieldErrors errors;
  const ModelSpec spec = ParseModelSpec(network.at("model"), "model", errors);
  TY_RETURN_IF_ERROR(errors.ToStatus("networks.json"));
  const ParameterSet parameters = MovedStartValues(spec);
  const std::string path = fmt::format("{}/{}", folder, network.at("name").get<std::string>());
  TY_ASSIGN_OR_RETURN(const std::string model, OnnxModelOf(spec, parameters));
  TY_RETURN_IF_ERROR(ReplaceFile(path + ".onnx", model));
  Run run;
  TY_RETURN_IF_ERROR(RunNetwork(spec, network.at("batch").get<int64_t>(), parameters, run));
  TY_ASSIGN_OR_RETURN(const std::string numbers, SerializeSafetensors(run.tensors()));
  return ReplaceFile(path + ".safetensors", numbers);
}

int Main(const std::string& folder) {
  const absl::StatusOr<std::string> text = ReadFile(folder + "/networks.json", kMostBytes);
  const nlohmann::json networks = nlohmann::json::parse(text.value_or(""), nullptr, /*allow_exceptions=*/false);
  if (!networks.is_array()) {
    fmt::print(stderr, "{}/networks.json: not a list of networks\n", folder);
    return 1;
  }
  for (const nlohmann::json& network : networks) {
    const absl::Status status = ExportNetwork(network, folder);
    if (status.ok()) continue;
    fmt::print(stderr, "{}: {}\n", network.dump(), std::string(status.message()));
    return 1;
  }
  return 0;
}

}  // namespace
}  // namespace trainyard::engine

int main(int argc, char** argv) { return argc == 2 ? trainyard::engine::Main(argv[1]) : 2; }
