// TensorFlow Serving's REST: rows ("instances") and columns ("inputs").
// https://www.tensorflow.org/tfx/serving/api_rest
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "trainer/serve/infer_request.h"
#include "trainer/serve/signature.h"

namespace trainyard::engine {

struct TensorFlowRequest {
  InferRequest request;
  bool rows = true;  // "instances"; else "inputs"
};

// InvalidArgument names the field.
absl::StatusOr<TensorFlowRequest> ParseTensorFlowPredict(std::string_view body, const Signature& signature);

// {"predictions": …}, or for columns {"outputs": …}: a list of each example's numbers.
std::string TensorFlowPredictBody(const TensorFlowRequest& request, const InferAnswer& answer, const Signature& signature);

// {"model_version_status": [{"version", "state", "status"}]}
std::string TensorFlowStatusBody(int64_t version);
// {"model_spec", "metadata": {"signature_def": …, "classes": […]}}. TensorFlow has no "classes":
// their names by number.
std::string TensorFlowMetadataBody(const Signature& signature, const std::string& model, int64_t version);

}  // namespace trainyard::engine
