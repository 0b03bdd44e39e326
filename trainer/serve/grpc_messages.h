// The Open Inference Protocol's gRPC messages ↔ requests and answers.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "trainer/serve/infer_request.h"
#include "trainer/serve/proto/inference.pb.h"
#include "trainer/serve/signature.h"

namespace trainyard::engine {

// Takes the tensors' bytes out of the message. InvalidArgument names the field.
absl::StatusOr<InferRequest> RequestOf(inference::ModelInferRequest& message, const Signature& signature);
// Its tensor is in raw_output_contents.
inference::ModelInferResponse ResponseOf(const InferRequest& request, const InferAnswer& answer, const Signature& signature,
                                         const std::string& model);
inference::ModelMetadataResponse ModelMetadataOf(const Signature& signature, const std::string& model, int64_t version);
inference::ServerMetadataResponse ServerMetadata();

}  // namespace trainyard::engine
