#include "trainer/data/store/store_manifest.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <span>
#include <utility>

#include "trainer/base/parse_json.h"
#include "trainer/base/status_macros.h"

namespace trainyard::engine {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr std::string_view kFormat = "trainyard-store";
constexpr int64_t kMaxExamples = int64_t{1} << 40;
constexpr int64_t kMaxElements = int64_t{1} << 31;

ordered_json ExtentsOf(const Shape& shape) {
  ordered_json extents = ordered_json::array();
  for (const int64_t extent : shape.extents()) extents.push_back(extent);
  return extents;
}

// Fields of a manifest; the first wrong one is kept.
class Fields {
 public:
  explicit Fields(std::string_view name) : name_(name) {}
  const absl::Status& status() const { return status_; }

  void Wrong(std::string_view field, std::string_view expected) {
    if (status_.ok()) status_ = absl::InvalidArgumentError(fmt::format("{}: {}: expected {}", name_, field, expected));
  }
  int64_t Count(const json& object, const char* field, int64_t most) {
    const auto found = object.is_object() ? object.find(field) : object.end();
    if (!object.is_object() || found == object.end() || !found->is_number_integer() || *found < 0 || *found > most) {
      Wrong(field, fmt::format("a whole number from 0 to {}", most));
      return 0;
    }
    return found->get<int64_t>();
  }
  std::string Text(const json& object, const char* field) {
    const auto found = object.is_object() ? object.find(field) : object.end();
    if (object.is_object() && found != object.end() && found->is_string()) return found->get<std::string>();
    Wrong(field, "a text");
    return "";
  }
  const json& Part(const json& object, const char* field) {
    const auto found = object.is_object() ? object.find(field) : object.end();
    if (object.is_object() && found != object.end()) return *found;
    Wrong(field, "something");
    return nothing_;
  }
  Shape Extents(const json& object, const char* field) {
    const json& list = Part(object, field);
    std::vector<int64_t> extents;
    int64_t elements = 1;
    bool good = list.is_array() && list.size() < Shape::kMaxRank;
    for (size_t i = 0; good && i < list.size(); ++i) {
      good = list[i].is_number_integer() && list[i] > 0 && list[i] <= kMaxElements / elements;
      if (!good) break;
      extents.push_back(list[i].get<int64_t>());
      elements *= extents.back();
    }
    if (!good) Wrong(field, fmt::format("a list of up to {} extents of at most {} elements", Shape::kMaxRank - 1, kMaxElements));
    return good ? Shape(std::span<const int64_t>(extents)) : Shape();
  }
  DType Type(const json& object, DType a, DType b) {
    const std::string text = Text(object, "dtype");
    if (text == DTypeName(a)) return a;
    if (text != DTypeName(b)) Wrong("dtype", fmt::format("{} or {}", DTypeName(a), DTypeName(b)));
    return b;
  }

 private:
  const std::string name_;
  const json nothing_;
  absl::Status status_;
};

uint32_t ParseHex(std::string_view text, Fields& fields) {
  uint32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, 16);
  if (text.size() != 8 || error != std::errc() || end != text.data() + text.size()) fields.Wrong("crc32c", "8 hexadecimal digits");
  return value;
}

bool StaysInFolder(std::string_view file) {
  return !file.empty() && file.size() <= 255 && file.find('/') == std::string_view::npos && file.find('\0') == std::string_view::npos &&
         file != "." && file != "..";
}

}  // namespace

std::string ManifestJson(const StoreManifest& manifest) {
  ordered_json shards = ordered_json::array();
  for (const StoreShard& shard : manifest.shards) {
    shards.push_back(
        {{"file", shard.file}, {"examples", shard.examples}, {"bytes", shard.bytes}, {"crc32c", fmt::format("{:08x}", shard.crc32c)}});
  }
  ordered_json label = {{"dtype", DTypeName(manifest.y_dtype)}, {"shape", ExtentsOf(manifest.label_shape)}};
  if (manifest.y_dtype == DType::kI32) {
    label["minimum"] = manifest.label_minimum;
    label["maximum"] = manifest.label_maximum;
  }
  const ordered_json object = {{"format", kFormat},
                               {"version", 1},
                               {"source", manifest.source},
                               {"examples", manifest.examples},
                               {"example",
                                {{"dtype", DTypeName(manifest.x_dtype)},
                                 {"shape", ExtentsOf(manifest.example_shape)},
                                 {"scale", static_cast<double>(manifest.x_scale)}}},
                               {"label", std::move(label)},
                               {"shards", std::move(shards)}};
  return object.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

absl::StatusOr<StoreManifest> ParseManifest(std::string_view text, std::string_view name) {
  const json object = ParseJson(text);
  if (!object.is_object() || object.value("format", json()) != kFormat) {
    return absl::InvalidArgumentError(fmt::format("{} is not the manifest of a dataset store (\"format\": \"{}\")", name, kFormat));
  }
  if (object.value("version", json()) != 1) {
    return absl::InvalidArgumentError(fmt::format("{}: version: found {}, expected 1; the store was made by another version", name,
                                                  object.value("version", json()).dump()));
  }
  Fields fields(name);
  StoreManifest manifest;
  manifest.source = fields.Text(object, "source");
  manifest.examples = fields.Count(object, "examples", kMaxExamples);
  const json& example = fields.Part(object, "example");
  manifest.x_dtype = fields.Type(example, DType::kU8, DType::kF32);
  manifest.example_shape = fields.Extents(example, "shape");
  const json& scale = fields.Part(example, "scale");
  manifest.x_scale = scale.is_number() ? static_cast<float>(scale.get<double>()) : 0.0F;
  if (!std::isfinite(manifest.x_scale) || manifest.x_scale == 0.0F) fields.Wrong("scale", "a number other than 0");
  const json& label = fields.Part(object, "label");
  manifest.y_dtype = fields.Type(label, DType::kI32, DType::kF32);
  manifest.label_shape = fields.Extents(label, "shape");
  if (manifest.y_dtype == DType::kI32) {
    constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
    manifest.label_minimum = static_cast<int32_t>(fields.Count(label, "minimum", kMost));
    manifest.label_maximum = static_cast<int32_t>(fields.Count(label, "maximum", kMost));
    if (manifest.label_shape.rank() != 0) fields.Wrong("label.shape", "[] for class numbers");
  }
  const json& shards = fields.Part(object, "shards");
  if (!shards.is_array() || shards.empty()) fields.Wrong("shards", "a list of one or more");
  int64_t examples = 0;
  for (const json& part : shards.is_array() ? shards : json::array()) {
    StoreShard shard;
    shard.file = fields.Text(part, "file");
    if (!StaysInFolder(shard.file)) fields.Wrong("file", "the name of a file in the store's folder");
    shard.examples = fields.Count(part, "examples", kMaxExamples);
    shard.bytes = static_cast<uint64_t>(fields.Count(part, "bytes", std::numeric_limits<int64_t>::max()));
    shard.crc32c = ParseHex(fields.Text(part, "crc32c"), fields);
    TY_RETURN_IF_ERROR(fields.status());
    const uint64_t each = manifest.x_bytes() + manifest.y_bytes();
    if (static_cast<uint64_t>(shard.examples) > (uint64_t{1} << 62) / each || shard.bytes != static_cast<uint64_t>(shard.examples) * each) {
      fields.Wrong("bytes", fmt::format("{} examples of {} bytes each in {}", shard.examples, each, shard.file));
    }
    examples += shard.examples;
    if (examples > manifest.examples) break;
    manifest.shards.push_back(std::move(shard));
  }
  if (examples != manifest.examples) fields.Wrong("examples", fmt::format("the {} examples of the shards together", examples));
  if (manifest.examples == 0) fields.Wrong("examples", "one or more");
  TY_RETURN_IF_ERROR(fields.status());
  return manifest;
}

}  // namespace trainyard::engine
