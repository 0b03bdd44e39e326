#include "trainer/serve/v2_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "trainer/base/status_macros.h"
#include "trainer/predict/prediction_text.h"
#include "trainer/serve/json_body.h"
#include "trainer/serve/quoted.h"
#include "trainyard_version.h"

namespace trainyard::engine {
namespace {

using nlohmann::ordered_json;
using Kind = JsonValue::Kind;

absl::Status Wrong(std::string_view field, const JsonValue* found, std::string_view expected) {
  if (found == nullptr) return absl::InvalidArgumentError(fmt::format("{}: missing, expected {}", field, expected));
  return absl::InvalidArgumentError(fmt::format("{}: found {}, expected {}", field, found->Found(), expected));
}

// A whole number from 0 that JSON can hold exactly.
std::optional<int64_t> WholeOf(const JsonValue& value, double most = 0x1p53) {
  if (value.kind != Kind::kNumber || value.number < 0 || value.number > most || value.number != std::floor(value.number))
    return std::nullopt;
  return static_cast<int64_t>(value.number);
}

absl::StatusOr<std::string> TextField(const JsonValue& object, const std::string& path, std::string_view name) {
  const JsonValue* const value = object.Find(name);
  if (value == nullptr || value->kind != Kind::kText) return Wrong(fmt::format("{}.{}", path, name), value, "a text");
  return value->text;
}

// The object of parameters; null where there is none.
absl::StatusOr<const JsonValue*> Parameters(const JsonValue& object, const std::string& path) {
  const JsonValue* const parameters = object.Find("parameters");
  if (parameters != nullptr && parameters->kind != Kind::kObject) return Wrong(path + "parameters", parameters, "an object");
  return parameters;
}

absl::StatusOr<bool> Flag(const JsonValue* parameters, const std::string& path, std::string_view name) {
  const JsonValue* const value = parameters == nullptr ? nullptr : parameters->Find(name);
  if (value == nullptr) return false;
  if (value->kind != Kind::kBool) return Wrong(fmt::format("{}parameters.{}", path, name), value, "true or false");
  return value->flag;
}

// A list of objects; null where it is absent.
absl::StatusOr<std::vector<JsonValue>*> Objects(JsonValue& body, const std::string& name) {
  JsonValue* const list = body.Find(name);
  if (list == nullptr) return nullptr;
  if (list->kind != Kind::kList) return Wrong(name, list, "a list of objects");
  for (size_t i = 0; i < list->items.size(); ++i) {
    if (list->items[i].kind != Kind::kObject) return Wrong(fmt::format("{}[{}]", name, i), &list->items[i], "an object");
  }
  return &list->items;
}

absl::StatusOr<std::vector<int64_t>> ShapeOf(const JsonValue& object, const std::string& path) {
  const JsonValue* const value = object.Find("shape");
  if (value == nullptr || value->kind != Kind::kNumbers || value->shape.size() != 1) {
    return Wrong(path + ".shape", value, "a list of whole numbers");
  }
  std::vector<int64_t> shape;
  for (const double extent : value->numbers) {
    if (extent < 0 || extent > 0x1p53 || extent != std::floor(extent)) {
      return absl::InvalidArgumentError(fmt::format("{}.shape: found the extent {}, expected a whole number from 0", path, extent));
    }
    shape.push_back(static_cast<int64_t>(extent));
  }
  return shape;
}

// Appends the texts of a list of texts, nested or not. Null is a missing one, "".
bool AppendTexts(const JsonValue& list, std::vector<std::string>& texts) {
  for (const JsonValue& item : list.items) {
    if (item.kind == Kind::kText || item.kind == Kind::kNull) {
      texts.push_back(item.text);
    } else if (item.kind != Kind::kList || !AppendTexts(item, texts)) {
      return false;
    }
  }
  return true;
}

bool HasNullsAlone(const JsonValue& value) {
  return value.kind == Kind::kNull || (value.kind == Kind::kList && std::ranges::all_of(value.items, HasNullsAlone));
}

// The bytes behind the JSON, taken by one tensor after the other.
class BinaryRest {
 public:
  explicit BinaryRest(std::string_view bytes) : bytes_(bytes) {}
  absl::StatusOr<RawElements> Take(const std::string& path, const JsonValue& size) {
    const std::string field = path + ".parameters.binary_data_size";
    const std::optional<int64_t> wanted = WholeOf(size);
    if (!wanted) return Wrong(field, &size, "a number of bytes");
    if (static_cast<uint64_t>(*wanted) > bytes_.size()) {
      return absl::InvalidArgumentError(
          fmt::format("{}: found {}, expected at most the {} bytes that are left behind the JSON", field, *wanted, bytes_.size()));
    }
    RawElements taken{std::string(bytes_.substr(0, static_cast<size_t>(*wanted)))};
    bytes_.remove_prefix(static_cast<size_t>(*wanted));
    return taken;
  }
  absl::Status CheckEmpty() const {
    if (bytes_.empty()) return absl::OkStatus();
    return absl::InvalidArgumentError(fmt::format("the body: found {} bytes behind the JSON that no input takes", bytes_.size()));
  }

 private:
  std::string_view bytes_;
};

absl::StatusOr<InputTensor> ParseInput(JsonValue& object, const std::string& path, BinaryRest& rest) {
  InputTensor tensor{.field = path, .name = "", .datatype = "", .shape = {}, .data = {}};
  TY_ASSIGN_OR_RETURN(tensor.name, TextField(object, path, "name"));
  if (tensor.name.empty()) return Wrong(path + ".name", object.Find("name"), "the name of an input");
  TY_ASSIGN_OR_RETURN(tensor.datatype, TextField(object, path, "datatype"));
  if (tensor.datatype.empty()) return Wrong(path + ".datatype", object.Find("datatype"), "one of FP32, FP64, INT32, INT64, UINT8, BYTES");
  TY_ASSIGN_OR_RETURN(tensor.shape, ShapeOf(object, path));
  TY_ASSIGN_OR_RETURN(const JsonValue* const parameters, Parameters(object, path + "."));
  const JsonValue* const size = parameters == nullptr ? nullptr : parameters->Find("binary_data_size");
  JsonValue* const data = object.Find("data");
  if (size != nullptr) {
    if (data != nullptr)
      return absl::InvalidArgumentError(path + ".data: found it beside parameters.binary_data_size, expected one of them");
    TY_ASSIGN_OR_RETURN(tensor.data, rest.Take(path, *size));
    return tensor;
  }
  if (data != nullptr && data->kind == Kind::kNumbers) {
    tensor.data = std::move(data->numbers);
    return tensor;
  }
  std::vector<std::string> texts;
  if (data == nullptr || data->kind != Kind::kList || !AppendTexts(*data, texts)) {
    return Wrong(path + ".data", data, "a list of numbers, or of texts for BYTES");
  }
  if (tensor.datatype != "BYTES" && HasNullsAlone(*data)) {
    tensor.data = std::vector<double>(texts.size(), std::numeric_limits<double>::quiet_NaN());
  } else {
    tensor.data = std::move(texts);
  }
  return tensor;
}

absl::Status ParseOutputs(const std::vector<JsonValue>& outputs, const Signature& signature, InferRequest& request) {
  for (size_t i = 0; i < outputs.size(); ++i) {
    const std::string path = fmt::format("outputs[{}]", i);
    TY_ASSIGN_OR_RETURN(const std::string name, TextField(outputs[i], path, "name"));
    if (name != signature.output().name) {
      return absl::InvalidArgumentError(fmt::format("{}.name: found {}, expected \"{}\"", path, InQuotes(name), signature.output().name));
    }
    TY_ASSIGN_OR_RETURN(const JsonValue* const parameters, Parameters(outputs[i], path + "."));
    TY_ASSIGN_OR_RETURN(const bool binary, Flag(parameters, path + ".", "binary_data"));
    request.binary_output = binary || (request.binary_output && (parameters == nullptr || parameters->Find("binary_data") == nullptr));
    const JsonValue* const classes = parameters == nullptr ? nullptr : parameters->Find("classification");
    if (classes == nullptr) continue;
    const std::optional<int64_t> most = WholeOf(*classes, 1000);
    const std::string field = path + ".parameters.classification";
    if (signature.classes().empty()) return Wrong(field, classes, "none: the model gives numbers, not classes");
    if (!most || *most == 0) return Wrong(field, classes, "a number of classes from 1 to 1000");
    request.classification = static_cast<int>(*most);
  }
  return absl::OkStatus();
}

absl::Status ParseSequence(const JsonValue* parameters, InferRequest& request) {
  SequenceRequest sequence;
  TY_ASSIGN_OR_RETURN(sequence.start, Flag(parameters, "", "sequence_start"));
  TY_ASSIGN_OR_RETURN(sequence.end, Flag(parameters, "", "sequence_end"));
  const JsonValue* const id = parameters->Find("sequence_id");
  if (id == nullptr) {
    if (!sequence.start && !sequence.end) return absl::OkStatus();
    return Wrong("parameters.sequence_id", nullptr, "it beside sequence_start or sequence_end");
  }
  const std::optional<int64_t> number = WholeOf(*id);
  sequence.id = number ? std::to_string(*number) : id->text;
  if (sequence.id.empty() || sequence.id == "0" || sequence.id.size() > kMostSequenceIdBytes) {
    return Wrong("parameters.sequence_id", id,
                 fmt::format("a whole number from 1 to 2^53, or a text of 1 to {} bytes", kMostSequenceIdBytes));
  }
  request.sequence = std::move(sequence);
  return absl::OkStatus();
}

absl::Status ParseRequestParameters(const JsonValue* parameters, InferRequest& request) {
  TY_ASSIGN_OR_RETURN(request.binary_output, Flag(parameters, "", "binary_data_output"));
  if (parameters == nullptr) return absl::OkStatus();
  if (const JsonValue* const timeout = parameters->Find("timeout")) {
    const std::optional<int64_t> microseconds = WholeOf(*timeout);
    if (!microseconds || *microseconds == 0) return Wrong("parameters.timeout", timeout, "a number of microseconds above 0");
    request.timeout = absl::Microseconds(*microseconds);
  }
  return ParseSequence(parameters, request);
}

ordered_json SpecJson(const TensorSpec& spec) { return {{"name", spec.name}, {"datatype", spec.datatype}, {"shape", spec.shape}}; }

}  // namespace

absl::StatusOr<InferRequest> ParseV2Infer(std::string_view body, std::optional<size_t> json_bytes, const Signature& signature) {
  if (json_bytes && *json_bytes > body.size()) {
    return absl::InvalidArgumentError(fmt::format(
        "header Inference-Header-Content-Length: found {}, expected at most the {} bytes of the body", *json_bytes, body.size()));
  }
  TY_ASSIGN_OR_RETURN(JsonValue object, ParseJsonBody(body.substr(0, json_bytes.value_or(body.size()))));
  BinaryRest rest(json_bytes ? body.substr(*json_bytes) : std::string_view());
  InferRequest request;
  if (const JsonValue* const id = object.Find("id")) {
    if (id->kind != Kind::kText) return Wrong("id", id, "a text");
    request.id = id->text;
  }
  TY_ASSIGN_OR_RETURN(const JsonValue* const parameters, Parameters(object, ""));
  TY_RETURN_IF_ERROR(ParseRequestParameters(parameters, request));
  TY_ASSIGN_OR_RETURN(std::vector<JsonValue>* const inputs, Objects(object, "inputs"));
  if (inputs == nullptr) return Wrong("inputs", nullptr, "a list of objects");
  for (size_t i = 0; i < inputs->size(); ++i) {
    TY_ASSIGN_OR_RETURN(InputTensor tensor, ParseInput((*inputs)[i], fmt::format("inputs[{}]", i), rest));
    request.inputs.push_back(std::move(tensor));
  }
  TY_RETURN_IF_ERROR(rest.CheckEmpty());
  TY_ASSIGN_OR_RETURN(const std::vector<JsonValue>* const outputs, Objects(object, "outputs"));
  if (outputs != nullptr) TY_RETURN_IF_ERROR(ParseOutputs(*outputs, signature, request));
  return request;
}

V2Output V2OutputOf(const InferRequest& request, const InferAnswer& answer, const Signature& signature) {
  V2Output output{.datatype = signature.output().datatype, .shape = signature.output().shape, .values = answer.values, .texts = {}};
  output.shape[0] = answer.examples;
  if (request.classification == 0) return output;
  const size_t each = answer.values.size() / static_cast<size_t>(answer.examples);
  for (size_t at = 0; at < answer.values.size(); at += each) {
    for (const RankedClass& ranked : LikeliestOf(output.values.subspan(at, each), request.classification)) {
      output.texts.push_back(
          fmt::format("{}:{}:{}", ranked.probability, ranked.number, signature.classes()[static_cast<size_t>(ranked.number)]));
    }
  }
  output.datatype = "BYTES";
  output.shape = {answer.examples, static_cast<int64_t>(output.texts.size()) / answer.examples};
  return output;
}

std::string BinaryOf(const V2Output& output) {
  if (output.datatype != "BYTES") return {reinterpret_cast<const char*>(output.values.data()), output.values.size_bytes()};
  std::string bytes;
  for (const std::string& text : output.texts) {
    const auto size = static_cast<uint32_t>(text.size());
    bytes.append(reinterpret_cast<const char*>(&size), sizeof(size)).append(text);
  }
  return bytes;
}

V2Body V2InferBody(const InferRequest& request, const InferAnswer& answer, const Signature& signature, const std::string& model) {
  const V2Output output = V2OutputOf(request, answer, signature);
  ordered_json tensor = {{"name", signature.output().name}, {"datatype", output.datatype}, {"shape", output.shape}};
  std::string binary;
  if (request.binary_output) {
    binary = BinaryOf(output);
    tensor["parameters"]["binary_data_size"] = binary.size();
  } else if (output.texts.empty()) {
    tensor["data"] = output.values;
  } else {
    tensor["data"] = output.texts;
  }
  ordered_json object = {{"model_name", model}, {"model_version", std::to_string(answer.version)}};
  if (!request.id.empty()) object["id"] = request.id;
  object["outputs"] = ordered_json::array({std::move(tensor)});
  V2Body body{.body = JsonText(object), .json_bytes = std::nullopt};
  if (request.binary_output) {
    body.json_bytes = body.body.size();
    body.body += binary;
  }
  return body;
}

std::string V2ServerBody() {
  return JsonText({{"name", kPlatform},
                   {"version", TRAINYARD_VERSION},
                   {"extensions", {kBinaryExtension, kClassificationExtension, kSequenceExtension}}});
}

std::string V2ModelBody(const Signature& signature, const std::string& model, int64_t version) {
  ordered_json inputs = ordered_json::array();
  for (const TensorSpec& input : signature.inputs()) inputs.push_back(SpecJson(input));
  return JsonText({{"name", model},
                   {"versions", {std::to_string(version)}},
                   {"platform", kPlatform},
                   {"inputs", std::move(inputs)},
                   {"outputs", ordered_json::array({SpecJson(signature.output())})}});
}

}  // namespace trainyard::engine
