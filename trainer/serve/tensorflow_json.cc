#include "trainer/serve/tensorflow_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <span>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/strings/escaping.h"
#include "trainer/base/printable.h"
#include "trainer/base/status_macros.h"
#include "trainer/serve/json_body.h"

namespace trainyard::engine {
namespace {

using nlohmann::ordered_json;
using Kind = JsonValue::Kind;

constexpr char kSignatureName[] = "serving_default";
constexpr size_t kShortNameBytes = 60;  // of a name in a message

absl::Status Wrong(std::string_view field, const JsonValue& found, std::string_view expected) {
  return absl::InvalidArgumentError(fmt::format("{}: found {}, expected {}", field, found.Found(), expected));
}

// A text, {"b64": …} for bytes, a number or null as the text of one value.
absl::StatusOr<std::string> ValueText(const JsonValue& value, const std::string& path) {
  switch (value.kind) {
    case Kind::kText:
      return value.text;
    case Kind::kNumber:
      return fmt::format("{}", value.number);
    case Kind::kNull:
      return "";
    case Kind::kObject:
      if (const JsonValue* const packed = value.Find("b64"); packed != nullptr && value.fields.size() == 1) {
        std::string bytes;
        if (packed->kind == Kind::kText && absl::Base64Unescape(packed->text, &bytes)) return bytes;
        return Wrong(path + ".b64", *packed, "bytes in base64");
      }
      break;
    default:
      break;
  }
  return Wrong(path, value, "a text, a number, or {\"b64\": …}");
}

// `place_of` an example: its path in the body.
absl::StatusOr<InputTensor> ListTensor(JsonValue list, const std::string& path, std::string name,
                                       absl::FunctionRef<std::string(size_t)> place_of) {
  if (list.kind == Kind::kNumbers && list.shape[0] == 0) return Wrong(path, list, "an example or more");
  InputTensor tensor{
      .field = path, .name = std::move(name), .datatype = "", .shape = std::move(list.shape), .data = std::move(list.numbers)};
  if (list.kind == Kind::kNumbers) return tensor;
  if (list.kind != Kind::kList) return Wrong(path, list, "a list with an element for each example");
  std::vector<std::string> texts;
  for (size_t i = 0; i < list.items.size(); ++i) {
    const JsonValue& item = list.items[i];
    const bool boxed = item.kind == Kind::kList && item.items.size() == 1;  // [n, 1]
    absl::StatusOr<std::string> text = ValueText(boxed ? item.items[0] : item, "");
    if (!text.ok()) return ValueText(boxed ? item.items[0] : item, place_of(i)).status();
    texts.push_back(*std::move(text));
  }
  tensor.shape = {static_cast<int64_t>(texts.size())};
  tensor.data = std::move(texts);
  return tensor;
}

absl::StatusOr<InputTensor> ListTensor(JsonValue list, const std::string& path, std::string name) {
  return ListTensor(std::move(list), path, std::move(name), [&](size_t i) { return fmt::format("{}[{}]", path, i); });
}

bool IsRow(const JsonValue& value) { return value.kind == Kind::kObject && value.Find("b64") == nullptr; }

// [{"age": 39, "sex": "f"}, …] as one tensor for each name, which all rows have.
absl::StatusOr<std::vector<InputTensor>> NamedRows(const std::vector<JsonValue>& rows, const std::string& path) {
  std::vector<InputTensor> tensors;
  for (const auto& [name, first] : rows[0].fields) {
    const std::string short_name = Printable(name.substr(0, kShortNameBytes));
    JsonValue list;
    list.kind = Kind::kList;
    const bool numbers = first.kind == Kind::kNumbers;
    for (size_t i = 0; i < rows.size(); ++i) {
      const std::string place = fmt::format("{}[{}]", path, i);
      const JsonValue* const value = rows[i].Find(name);
      if (!rows[i].Has(name)) {
        return absl::InvalidArgumentError(fmt::format("{}.{}: missing, expected it as in {}[0]", place, short_name, path));
      }
      if (rows[i].fields.size() != rows[0].fields.size()) {
        return Wrong(place, rows[i], fmt::format("the {} fields of {}[0], found {}", rows[0].fields.size(), path, rows[i].fields.size()));
      }
      if (!numbers) {
        list.items.push_back(value == nullptr ? JsonValue() : *value);
        continue;
      }
      if (value == nullptr || value->kind != Kind::kNumbers || value->shape != first.shape) {
        return Wrong(fmt::format("{}.{}", place, short_name), value == nullptr ? JsonValue() : *value, first.Found());
      }
      list.numbers.insert(list.numbers.end(), value->numbers.begin(), value->numbers.end());
    }
    if (numbers) {
      list.kind = Kind::kNumbers;
      list.shape = first.shape;
      list.shape.insert(list.shape.begin(), static_cast<int64_t>(rows.size()));
    }
    const auto place_of = [&](size_t i) { return fmt::format("{}[{}].{}", path, i, short_name); };
    TY_ASSIGN_OR_RETURN(InputTensor tensor, ListTensor(std::move(list), fmt::format("{}.{}", path, short_name), name, place_of));
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

absl::StatusOr<std::vector<InputTensor>> RowTensors(JsonValue& instances) {
  if (instances.kind == Kind::kList && !instances.items.empty() && IsRow(instances.items[0])) {
    for (size_t i = 0; i < instances.items.size(); ++i) {
      if (!IsRow(instances.items[i])) return Wrong(fmt::format("instances[{}]", i), instances.items[i], "an object as in instances[0]");
    }
    return NamedRows(instances.items, "instances");
  }
  TY_ASSIGN_OR_RETURN(InputTensor tensor, ListTensor(std::move(instances), "instances", ""));
  return std::vector<InputTensor>{std::move(tensor)};
}

absl::StatusOr<std::vector<InputTensor>> ColumnTensors(JsonValue& inputs) {
  std::vector<InputTensor> tensors;
  if (inputs.kind != Kind::kObject) {
    TY_ASSIGN_OR_RETURN(InputTensor tensor, ListTensor(std::move(inputs), "inputs", ""));
    tensors.push_back(std::move(tensor));
    return tensors;
  }
  for (auto& [name, list] : inputs.fields) {
    TY_ASSIGN_OR_RETURN(InputTensor tensor,
                        ListTensor(std::move(list), fmt::format("inputs.{}", Printable(name.substr(0, kShortNameBytes))), name));
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

// Numbers of the shape as lists in lists.
ordered_json Nested(std::span<const float> values, std::span<const int64_t> shape) {
  if (shape.empty()) return values[0];
  if (shape.size() == 1) return values;
  ordered_json list = ordered_json::array();
  const size_t each = values.size() / static_cast<size_t>(shape[0]);
  for (size_t at = 0; at < values.size(); at += each) list.push_back(Nested(values.subspan(at, each), shape.subspan(1)));
  return list;
}

ordered_json TensorInfo(const TensorSpec& spec) {
  ordered_json dims = ordered_json::array();
  for (const int64_t extent : spec.shape) dims.push_back({{"size", std::to_string(extent)}, {"name", ""}});
  const std::string_view type = spec.datatype == "BYTES" ? "DT_STRING" : spec.datatype == "FP64" ? "DT_DOUBLE" : "DT_FLOAT";
  return {{"dtype", type}, {"tensor_shape", {{"dim", std::move(dims)}, {"unknown_rank", false}}}, {"name", spec.name}};
}

}  // namespace

absl::StatusOr<TensorFlowRequest> ParseTensorFlowPredict(std::string_view body, const Signature& signature) {
  TY_ASSIGN_OR_RETURN(JsonValue object, ParseJsonBody(body));
  if (const JsonValue* const name = object.Find("signature_name");
      name != nullptr && (name->kind != Kind::kText || (!name->text.empty() && name->text != kSignatureName))) {
    return Wrong("signature_name", *name, fmt::format("\"{}\" or none", kSignatureName));
  }
  for (const char* const name : {"sequence_id", "sequence_start", "sequence_end"}) {
    if (!object.Has(name)) continue;
    return absl::InvalidArgumentError(
        fmt::format("{}: found one, expected none: TensorFlow's JSON has no sequences; send them to /v2/models/NAME/infer", name));
  }
  JsonValue* const instances = object.Find("instances");
  JsonValue* const inputs = object.Find("inputs");
  if ((instances == nullptr) == (inputs == nullptr)) {
    return absl::InvalidArgumentError(fmt::format("the body: found {}, expected one of them", instances == nullptr
                                                                                                  ? "neither \"instances\" nor \"inputs\""
                                                                                                  : "both \"instances\" and \"inputs\""));
  }
  TensorFlowRequest request{.request = {}, .rows = instances != nullptr};
  TY_ASSIGN_OR_RETURN(request.request.inputs, request.rows ? RowTensors(*instances) : ColumnTensors(*inputs));
  if (request.request.inputs.empty()) {
    return absl::InvalidArgumentError(
        fmt::format("{}: found no input, expected \"{}\"", request.rows ? "instances[0]" : "inputs", signature.inputs()[0].name));
  }
  return request;
}

std::string TensorFlowPredictBody(const TensorFlowRequest& request, const InferAnswer& answer, const Signature& signature) {
  std::vector<int64_t> shape = signature.output().shape;
  shape[0] = answer.examples;
  return JsonText({{request.rows ? "predictions" : "outputs", Nested(answer.values, shape)}});
}

std::string TensorFlowStatusBody(int64_t version) {
  const ordered_json status = {
      {"version", std::to_string(version)}, {"state", "AVAILABLE"}, {"status", {{"error_code", "OK"}, {"error_message", ""}}}};
  return JsonText({{"model_version_status", ordered_json::array({status})}});
}

std::string TensorFlowMetadataBody(const Signature& signature, const std::string& model, int64_t version) {
  ordered_json inputs;
  for (const TensorSpec& input : signature.inputs()) inputs[input.name] = TensorInfo(input);
  const ordered_json definition = {{"inputs", std::move(inputs)},
                                   {"outputs", {{signature.output().name, TensorInfo(signature.output())}}},
                                   {"method_name", "tensorflow/serving/predict"}};
  ordered_json metadata = {{"signature_def", {{"signature_def", {{kSignatureName, definition}}}}}};
  if (!signature.classes().empty()) metadata["classes"] = signature.classes();
  return JsonText(
      {{"model_spec", {{"name", model}, {"signature_name", ""}, {"version", std::to_string(version)}}}, {"metadata", std::move(metadata)}});
}

}  // namespace trainyard::engine
