// run_ops FOLDER PRECISION: FOLDER/cases.json is a list of small graphs, as torch_oracle_test.py
// describes them. FOLDER/values.safetensors has the values of their inputs and parameters,
// "CASE/NAME". Runs each graph by every set of kernels that this machine has, and by the reference
// backend. Writes FOLDER/results.safetensors: "CASE/SET/out/NAME", the outputs of a training step
// ("gradients/x" among them); "CASE/SET/result/NAME", what the step leaves for a parameter;
// "CASE/SET/inference/NAME", the outputs of the graph without its loss. Prints the sets' names.
#include <fmt/format.h>

#include <cstdio>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/interop/oracle/case_graph.h"
#include "trainer/backend/cpu/cpu_backend.h"
#include "trainer/backend/cpu/select_bf16.h"
#include "trainer/backend/cpu/select_kernels.h"
#include "trainer/backend/executor.h"
#include "trainer/backend/reference/reference_backend.h"
#include "trainer/base/file.h"
#include "trainer/base/status_macros.h"
#include "trainer/tensor/safetensors.h"

namespace trainyard::engine {
namespace {

using nlohmann::json;

// Owns the elements of all results.
class Results {
 public:
  Tensor Add(std::string name, const Shape& shape) {
    bytes_.emplace_back(static_cast<size_t>(shape.elements()) * sizeof(float));
    tensors_.push_back({std::move(name), {DType::kF32, shape, bytes_.back().data()}});
    return tensors_.back().tensor;
  }
  const std::vector<NamedTensor>& tensors() const { return tensors_; }

 private:
  std::vector<Buffer> bytes_;
  std::vector<NamedTensor> tensors_;
};

// Runs the cases on all backends.
class Runner {
 public:
  Runner(Safetensors values, Precision precision) : values_(std::move(values)), precision_(precision) {
    if (precision == Precision::kBfloat16) {
      for (const Bf16Set& set : RunnableBf16Sets()) sets_.emplace_back(set.isa);
    } else {
      for (const KernelTable* table : RunnableKernels()) sets_.emplace_back(table->isa);
    }
    sets_.emplace_back("reference");
  }

  const std::vector<std::string>& sets() const { return sets_; }
  const Results& results() const { return results_; }

  // Odd cases run on two threads.
  absl::Status Run(const json& one, int number) {
    for (const std::string& set : sets_) {
      TY_ASSIGN_OR_RETURN(Backend* const backend, BackendOf(set, 1 + number % 2));
      const std::string prefix = fmt::format("{}/{}/", number, set);
      TY_RETURN_IF_ERROR(Train(one, number, *backend, prefix));
      TY_RETURN_IF_ERROR(Infer(one, number, *backend, prefix));
    }
    return absl::OkStatus();
  }

 private:
  absl::StatusOr<Backend*> BackendOf(const std::string& set, int threads) {
    std::unique_ptr<Backend>& backend = backends_[{set, threads}];
    if (backend == nullptr && set == "reference") backend = MakeReferenceBackend(DType::kF32, precision_);
    if (backend == nullptr) {
      TY_ASSIGN_OR_RETURN(backend, MakeCpuBackend({.threads = threads, .isa = set, .precision = precision_}));
    }
    return backend.get();
  }

  absl::StatusOr<std::vector<Feed>> FeedsOf(const Graph& graph, int number) const {
    std::vector<Feed> feeds;
    for (const NodeId id : graph.inputs()) {
      const std::string& name = graph.node(id).name;
      TY_ASSIGN_OR_RETURN(const Tensor tensor, values_.Get(fmt::format("{}/{}", number, name)));
      feeds.push_back({.name = name, .tensor = tensor});
    }
    return feeds;
  }

  absl::StatusOr<ParameterSet> ParametersOf(const Graph& graph, int number) const {
    ParameterSet parameters({graph.parameters().begin(), graph.parameters().end()});
    for (int key = 0; key < parameters.size(); ++key) {
      TY_ASSIGN_OR_RETURN(const Tensor tensor, values_.Get(fmt::format("{}/{}", number, parameters.spec(key).name)));
      std::ranges::copy(tensor.values<float>(), parameters.values(key).begin());
    }
    return parameters;
  }

  absl::Status FetchAll(const Executor& executor, const std::string& prefix) {
    for (const auto& [name, value] : executor.graph().outputs()) {
      TY_RETURN_IF_ERROR(executor.Fetch(name, results_.Add(prefix + name, executor.graph().spec(value).shape)));
    }
    return absl::OkStatus();
  }

  absl::Status Train(const json& one, int number, Backend& backend, const std::string& prefix) {
    TY_ASSIGN_OR_RETURN(const Graph graph, BuildCaseGraph(one, /*inference=*/false));
    const ExecutorOptions options = {.fuse = one.at("fuse"), .gradients = {.inputs = one.at("gradients").get<std::vector<std::string>>()}};
    TY_ASSIGN_OR_RETURN(const std::unique_ptr<Executor> executor, Executor::Create(graph, backend, options));
    TY_ASSIGN_OR_RETURN(const ParameterSet parameters, ParametersOf(graph, number));
    TY_ASSIGN_OR_RETURN(const std::vector<Feed> feeds, FeedsOf(graph, number));
    ParameterSet left({graph.parameters().begin(), graph.parameters().end()});
    const StepContext step = {.seed = static_cast<uint64_t>(number), .step = 1};
    TY_RETURN_IF_ERROR(executor->Run(step, feeds, parameters, &left, nullptr));
    for (const ParameterResult& result : executor->graph().results()) {
      const ParameterSpec& spec = left.spec(result.key);
      std::ranges::copy(left.values(result.key), results_.Add(prefix + "result/" + spec.name, spec.shape).values<float>().begin());
    }
    return FetchAll(*executor, prefix + "out/");
  }

  absl::Status Infer(const json& one, int number, Backend& backend, const std::string& prefix) {
    TY_ASSIGN_OR_RETURN(const Graph graph, BuildCaseGraph(one, /*inference=*/true));
    TY_ASSIGN_OR_RETURN(const ParameterSet parameters, ParametersOf(graph, number));
    TY_ASSIGN_OR_RETURN(const std::unique_ptr<Executor> executor,
                        Executor::Create(graph, backend, {.fuse = one.at("fuse"), .inference = &parameters}));
    TY_ASSIGN_OR_RETURN(const std::vector<Feed> feeds, FeedsOf(graph, number));
    TY_RETURN_IF_ERROR(executor->Run({.training = false}, feeds, parameters, nullptr, nullptr));
    return FetchAll(*executor, prefix + "inference/");
  }

  const Safetensors values_;
  const Precision precision_;
  std::vector<std::string> sets_;
  std::map<std::pair<std::string, int>, std::unique_ptr<Backend>> backends_;
  Results results_;
};

absl::Status Run(const std::string& folder, Precision precision) {
  TY_ASSIGN_OR_RETURN(const std::string text, ReadFile(folder + "/cases.json"));
  TY_ASSIGN_OR_RETURN(Safetensors values, Safetensors::Read(folder + "/values.safetensors"));
  Runner runner(std::move(values), precision);
  int number = 0;
  for (const json& one : json::parse(text)) {
    TY_RETURN_IF_ERROR(WithContext(runner.Run(one, number), fmt::format("case {}", number)));
    ++number;
  }
  TY_ASSIGN_OR_RETURN(const std::string bytes, SerializeSafetensors(runner.results().tensors()));
  TY_RETURN_IF_ERROR(ReplaceFile(folder + "/results.safetensors", bytes));
  fmt::print("{}\n", fmt::join(runner.sets(), " "));
  return absl::OkStatus();
}

}  // namespace
}  // namespace trainyard::engine

int main(int argc, char** argv) {
  using namespace trainyard::engine;  // NOLINT(google-build-using-namespace): the program's one function
  if (argc != 3 || (argv[2] != kPrecisionNames[0] && argv[2] != kPrecisionNames[1])) {
    fmt::print(stderr, "usage: run_ops FOLDER float32|bfloat16\n");
    return 2;
  }
  const absl::Status status = Run(argv[1], argv[2] == kPrecisionNames[1] ? Precision::kBfloat16 : Precision::kFloat32);
  if (!status.ok()) fmt::print(stderr, "run_ops: {}\n", std::string(status.message()));
  return status.ok() ? 0 : 1;
}
