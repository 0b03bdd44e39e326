// The Open Inference Protocol (KServe v2) in JSON, with the binary tensor extension: a JSON object,
// and behind it the bytes of tensors that say `binary_data_size`.
// https://kserve.github.io/website/docs/concepts/architecture/data-plane/v2-protocol
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "trainer/serve/infer_request.h"
#include "trainer/serve/signature.h"

namespace trainyard::engine {

// `json_bytes`: the length of the JSON at the body's start; absent: all of it. InvalidArgument
// names the field.
absl::StatusOr<InferRequest> ParseV2Infer(std::string_view body, std::optional<size_t> json_bytes, const Signature& signature);

struct V2Body {
  std::string body;
  std::optional<size_t> json_bytes;  // there are bytes behind the JSON
};
V2Body V2InferBody(const InferRequest& request, const InferAnswer& answer, const Signature& signature, const std::string& model);

// {"name", "version", "extensions"}
std::string V2ServerBody();
// {"name", "versions", "platform", "inputs", "outputs"}
std::string V2ModelBody(const Signature& signature, const std::string& model, int64_t version);

inline constexpr char kPlatform[] = "trainyard";
inline constexpr char kBinaryExtension[] = "binary_tensor_data";
inline constexpr char kClassificationExtension[] = "classification";
inline constexpr char kSequenceExtension[] = "sequence";

// The one output of an answer.
struct V2Output {
  std::string datatype;
  std::vector<int64_t> shape;
  std::span<const float> values;   // FP32: the answer's
  std::vector<std::string> texts;  // BYTES: "<probability>:<class number>:<class name>", the likeliest first, of each example
};
// `answer` must outlive it.
V2Output V2OutputOf(const InferRequest& request, const InferAnswer& answer, const Signature& signature);
// The elements as little-endian bytes; each text behind its length in 4 bytes.
std::string BinaryOf(const V2Output& output);

}  // namespace trainyard::engine
