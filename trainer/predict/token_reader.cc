#include "trainer/predict/token_reader.h"

#include <algorithm>

#include "trainer/base/check.h"
#include "trainer/base/status_macros.h"
#include "trainer/model/build_graph.h"

namespace trainyard::engine {

int64_t ReadLengthFor(int64_t tokens) {
  TY_CHECK(tokens >= 1);
  return *std::ranges::find_if(kReadLengths, [tokens](int64_t length) { return length <= tokens; });
}

absl::StatusOr<Executor*> TokenReader::ExecutorFor(int64_t rows, int64_t length) {
  std::unique_ptr<Executor>& executor = executors_[{rows, length}];
  if (executor == nullptr) {
    ModelSpec spec = spec_;
    spec.input_shape = Shape({length});
    TY_ASSIGN_OR_RETURN(Graph graph, BuildReadingGraph(spec, rows));
    TY_ASSIGN_OR_RETURN(executor, Executor::Create(std::move(graph), backend_, {.inference = &parameters_}));
  }
  return executor.get();
}

absl::Status TokenReader::Read(int64_t rows, int64_t length, std::span<const int32_t> tokens, ParameterSet& state) {
  TY_CHECK(std::ranges::count(kReadLengths, length) == 1 && static_cast<int64_t>(tokens.size()) == rows * length);
  TY_ASSIGN_OR_RETURN(Executor* const executor, ExecutorFor(rows, length));
  const std::array feeds = {Feed{.name = kInputName, .tensor = {DType::kI32, Shape({rows, length}), const_cast<int32_t*>(tokens.data())}}};
  return executor->Run({.training = false}, feeds, parameters_, nullptr, nullptr, &state);
}

}  // namespace trainyard::engine
