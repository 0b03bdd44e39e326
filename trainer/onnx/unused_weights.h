// The weights of an ONNX file that no layer is read from: an import that left them out would give
// another network.
#pragma once

#include <set>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "trainer/onnx/constants.h"

namespace trainyard::engine {

class UnusedWeights {
 public:
  // `constants` must outlive it.
  explicit UnusedWeights(const OnnxConstants& constants) : constants_(constants) {}

  // Of every node, in their order. `taken`: its weights are a layer's. InvalidArgument: the node
  // has weights that are not. Single numbers do not count, since activations have them, and
  // neither do constants that change the inputs in front of the first layer: those are the
  // training's transforms.
  absl::Status Check(const onnx::NodeProto& node, bool taken);

 private:
  bool IsWeights(const std::string& tensor) const;
  bool IsConstant(const std::string& tensor) const;

  const OnnxConstants& constants_;
  std::set<std::string, std::less<>> made_;        // what nodes make of constants alone
  std::set<std::string, std::less<>> of_weights_;  // those of them that have weights
  std::set<std::string, std::less<>> behind_;      // what nodes behind a layer write
};

}  // namespace trainyard::engine
