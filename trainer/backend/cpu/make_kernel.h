// Makes a Kernel of a function object, and checks the common requirements of values.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "trainer/backend/backend.h"
#include "trainer/base/status_macros.h"
#include "trainer/graph/node_view.h"

namespace trainyard::engine {

template <typename Function>
class FunctionKernel final : public Kernel {
 public:
  FunctionKernel(Function function, size_t scratch_bytes) : function_(std::move(function)), scratch_bytes_(scratch_bytes) {}
  void Run(const KernelContext& context) override { function_(context); }
  size_t scratch_bytes() const override { return scratch_bytes_; }

 private:
  Function function_;
  const size_t scratch_bytes_;
};

template <typename Function>
std::unique_ptr<Kernel> MakeKernel(Function function, size_t scratch_bytes = 0) {
  return std::make_unique<FunctionKernel<Function>>(std::move(function), scratch_bytes);
}

// Panels hold samples: the first input of the node must be batched.
inline absl::Status RequireBatched(const NodeView& node) {
  if (node.in(0).batched) return absl::OkStatus();
  return absl::UnimplementedError(fmt::format("node '{}': the cpu backend runs {} on batches of samples only, found {} without a batch",
                                              node.node().name, OpName(node.node().op), node.in(0).shape.ToString()));
}

}  // namespace trainyard::engine
