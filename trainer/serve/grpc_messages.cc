#include "trainer/serve/grpc_messages.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <utility>

#include "trainer/base/status_macros.h"
#include "trainer/serve/quoted.h"
#include "trainer/serve/v2_json.h"
#include "trainyard_version.h"

namespace trainyard::engine {
namespace {

using inference::InferParameter;

constexpr int kMostClasses = 1000;

absl::Status Wrong(std::string_view field, std::string_view message) {
  return absl::InvalidArgumentError(fmt::format("{}: {}", field, message));
}

const InferParameter* Find(const google::protobuf::RepeatedPtrField<inference::Parameter>& parameters, std::string_view name) {
  for (const inference::Parameter& parameter : parameters) {
    if (parameter.key() == name) return &parameter.value();
  }
  return nullptr;
}

// "int64_param -1", "bool_param true" …: the words for it in a message.
std::string Found(const InferParameter& parameter) {
  if (parameter.has_bool_param()) return fmt::format("bool_param {}", parameter.bool_param());
  if (parameter.has_int64_param()) return fmt::format("int64_param {}", parameter.int64_param());
  if (parameter.has_string_param()) return fmt::format("string_param {}", InQuotes(parameter.string_param()));
  return "none of the types of a parameter";
}

template <typename List>
std::vector<double> Numbers(const List& list) {
  return {list.begin(), list.end()};
}

// A double does not hold each of them.
RawElements Raw(const google::protobuf::RepeatedField<int64_t>& list) {
  return {std::string(reinterpret_cast<const char*>(list.data()), static_cast<size_t>(list.size()) * sizeof(int64_t))};
}

// The list of the tensor's datatype; the others are empty.
absl::StatusOr<decltype(InputTensor::data)> DataOf(const inference::InferTensor& message, const InputTensor& tensor) {
  const inference::InferTensorContents& contents = message.contents();
  const std::array sizes = {contents.bool_contents_size(), contents.int_contents_size(),    contents.int64_contents_size(),
                            contents.uint_contents_size(), contents.uint64_contents_size(), contents.fp32_contents_size(),
                            contents.fp64_contents_size(), contents.bytes_contents_size()};
  int filled = 0;
  for (const int size : sizes) filled += size > 0 ? 1 : 0;
  if (filled > 1) return Wrong(tensor.field + ".contents", "found several lists, expected that of the datatype");
  const std::string& type = tensor.datatype;
  if (type == "BYTES") return std::vector<std::string>(contents.bytes_contents().begin(), contents.bytes_contents().end());
  std::vector<double> numbers;
  if (type == "FP32") numbers = Numbers(contents.fp32_contents());
  if (type == "FP64") numbers = Numbers(contents.fp64_contents());
  if (type == "INT32") numbers = Numbers(contents.int_contents());
  if (type == "INT64" && contents.int64_contents_size() > 0) return Raw(contents.int64_contents());
  if (type == "UINT8") numbers = Numbers(contents.uint_contents());
  constexpr std::array<std::string_view, 5> kNumberTypes = {"FP32", "FP64", "INT32", "INT64", "UINT8"};
  if (std::ranges::find(kNumberTypes, type) == kNumberTypes.end()) {
    return Wrong(tensor.field + ".datatype",
                 fmt::format("found {}, expected one of {}, BYTES", InQuotes(type), fmt::join(kNumberTypes, ", ")));
  }
  if (numbers.empty() && filled > 0) {
    return Wrong(tensor.field + ".contents", fmt::format("found a list of another type than {}", InQuotes(type)));
  }
  return numbers;
}

absl::Status ReadOutputs(const inference::ModelInferRequest& message, const Signature& signature, InferRequest& request) {
  for (int i = 0; i < message.outputs_size(); ++i) {
    const auto& output = message.outputs(i);
    const std::string field = fmt::format("outputs[{}]", i);
    if (output.name() != signature.output().name) {
      return Wrong(field + ".name", fmt::format("found {}, expected \"{}\"", InQuotes(output.name()), signature.output().name));
    }
    const InferParameter* const classes = Find(output.parameters(), kClassificationExtension);
    if (classes == nullptr) continue;
    const int64_t most = classes->int64_param();
    if (most < 1 || most > kMostClasses || signature.classes().empty()) {
      return Wrong(field + ".parameters.classification",
                   fmt::format("found {}, expected a number of classes from 1 to {}, of a model that has classes", most, kMostClasses));
    }
    request.classification = static_cast<int>(most);
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> Flag(const inference::ModelInferRequest& message, std::string_view name) {
  const InferParameter* const flag = Find(message.parameters(), name);
  if (flag == nullptr) return false;
  if (!flag->has_bool_param())
    return Wrong(fmt::format("parameters.{}", name), fmt::format("found {}, expected a bool_param", Found(*flag)));
  return flag->bool_param();
}

absl::Status ReadSequence(const inference::ModelInferRequest& message, InferRequest& request) {
  SequenceRequest sequence;
  TY_ASSIGN_OR_RETURN(sequence.start, Flag(message, "sequence_start"));
  TY_ASSIGN_OR_RETURN(sequence.end, Flag(message, "sequence_end"));
  const InferParameter* const id = Find(message.parameters(), "sequence_id");
  if (id == nullptr) {
    if (!sequence.start && !sequence.end) return absl::OkStatus();
    return Wrong("parameters.sequence_id", "missing, expected it beside sequence_start or sequence_end");
  }
  if (id->int64_param() > 0) sequence.id = std::to_string(id->int64_param());
  if (id->has_string_param()) sequence.id = id->string_param();
  if (sequence.id.empty() || sequence.id == "0" || sequence.id.size() > kMostSequenceIdBytes) {
    return Wrong("parameters.sequence_id", fmt::format("found {}, expected an int64_param above 0, or a string_param of 1 to {} bytes",
                                                       Found(*id), kMostSequenceIdBytes));
  }
  request.sequence = std::move(sequence);
  return absl::OkStatus();
}

void SetSpec(const TensorSpec& spec, inference::ModelMetadataResponse::TensorMetadata& to) {
  to.set_name(spec.name);
  to.set_datatype(spec.datatype);
  to.mutable_shape()->Assign(spec.shape.begin(), spec.shape.end());
}

}  // namespace

absl::StatusOr<InferRequest> RequestOf(inference::ModelInferRequest& message, const Signature& signature) {
  InferRequest request;
  request.id = message.id();
  if (const InferParameter* const timeout = Find(message.parameters(), "timeout")) {
    if (timeout->int64_param() <= 0) {
      return Wrong("parameters.timeout", fmt::format("found {}, expected an int64_param of microseconds above 0", Found(*timeout)));
    }
    request.timeout = absl::Microseconds(timeout->int64_param());
  }
  TY_RETURN_IF_ERROR(ReadSequence(message, request));
  const int raw = message.raw_input_contents_size();
  if (raw > 0 && raw != message.inputs_size()) {
    return Wrong("raw_input_contents",
                 fmt::format("found {}, expected one for each of the {} inputs, or none", raw, message.inputs_size()));
  }
  for (int i = 0; i < message.inputs_size(); ++i) {
    const inference::InferTensor& input = message.inputs(i);
    InputTensor tensor{.field = fmt::format("inputs[{}]", i),
                       .name = input.name(),
                       .datatype = input.datatype(),
                       .shape = {input.shape().begin(), input.shape().end()},
                       .data = {}};
    if (tensor.name.empty()) return Wrong(tensor.field + ".name", "missing, expected the name of an input");
    if (tensor.datatype.empty()) return Wrong(tensor.field + ".datatype", "missing, expected FP32 or another one");
    if (raw > 0) {
      if (input.has_contents()) return Wrong(tensor.field + ".contents", "found it beside raw_input_contents, expected one of them");
      tensor.data = RawElements{std::move(*message.mutable_raw_input_contents(i))};
    } else {
      TY_ASSIGN_OR_RETURN(tensor.data, DataOf(input, tensor));
    }
    request.inputs.push_back(std::move(tensor));
  }
  TY_RETURN_IF_ERROR(ReadOutputs(message, signature, request));
  return request;
}

inference::ModelInferResponse ResponseOf(const InferRequest& request, const InferAnswer& answer, const Signature& signature,
                                         const std::string& model) {
  inference::ModelInferResponse response;
  response.set_model_name(model);
  response.set_model_version(std::to_string(answer.version));
  response.set_id(request.id);
  const V2Output output = V2OutputOf(request, answer, signature);
  inference::InferTensor& tensor = *response.add_outputs();
  tensor.set_name(signature.output().name);
  tensor.set_datatype(output.datatype);
  tensor.mutable_shape()->Assign(output.shape.begin(), output.shape.end());
  response.add_raw_output_contents(BinaryOf(output));
  return response;
}

inference::ModelMetadataResponse ModelMetadataOf(const Signature& signature, const std::string& model, int64_t version) {
  inference::ModelMetadataResponse response;
  response.set_name(model);
  response.add_versions(std::to_string(version));
  response.set_platform(kPlatform);
  for (const TensorSpec& input : signature.inputs()) SetSpec(input, *response.add_inputs());
  SetSpec(signature.output(), *response.add_outputs());
  return response;
}

inference::ServerMetadataResponse ServerMetadata() {
  inference::ServerMetadataResponse response;
  response.set_name(kPlatform);
  response.set_version(TRAINYARD_VERSION);
  response.add_extensions(kClassificationExtension);
  response.add_extensions(kSequenceExtension);
  return response;
}

}  // namespace trainyard::engine
