// Any bytes: refused with a status, or taken as the weights of a network with all kinds of layers.
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "trainer/base/check.h"
#include "trainer/model/build_graph.h"
#include "trainer/model/model_json.h"
#include "trainer/onnx/import_model.h"

namespace {

constexpr std::string_view kModel = R"({"input": {"shape": [4, 4, 1]}, "loss": "meanSquaredError", "layers": [
  {"conv2d": {"filters": 2, "kernelSize": 3}}, {"batchNormalization": {}}, "flatten", {"dense": {"units": 4}},
  {"reshape": {"targetShape": [2, 2]}}, {"lstm": {"units": 1, "returnSequences": true}},
  {"bidirectional": {"layer": {"gru": {"units": 1}}}}]})";

trainyard::engine::ModelSpec Spec() {
  trainyard::engine::FieldErrors errors;
  trainyard::engine::ModelSpec spec = trainyard::engine::ParseModelSpec(nlohmann::json::parse(kModel), "model", errors);
  TY_CHECK(errors.empty());
  return spec;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace trainyard::engine;  // NOLINT(google-build-using-namespace): a fuzz target's only function
  static const ModelSpec& spec = *new ModelSpec(Spec());
  ParameterSet parameters(*ParameterSpecsOf(spec));
  const absl::Status status = ImportOnnx({reinterpret_cast<const char*>(data), size}, "fuzz", spec, parameters);
  if (status.ok()) return 0;
  TY_CHECK(std::string(status.message()).starts_with("fuzz: "));
  TY_CHECK(parameters.Sha256Hex() == ParameterSet(*ParameterSpecsOf(spec)).Sha256Hex());
  return 0;
}
