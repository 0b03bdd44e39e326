#include "trainer/job/pipeline_json.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>
#include <vector>

#include "trainer/base/nearest_name.h"

namespace trainyard::engine {
namespace {

using nlohmann::json;

const std::vector<std::string>& StageNames() {
  static const auto& names = *new std::vector<std::string>{"read", "shard", "interleave", "shuffle", "map", "cache", "batch", "prefetch"};
  return names;
}

constexpr Numbers kPositive{.min = 0, .max = 1e9, .above = true};
constexpr Numbers kAnyNumber{.min = -1e9, .max = 1e9};

// A number, or a list of them.
std::vector<double> NumberOrList(FieldReader& fields, std::string_view name, Numbers range) {
  const json* value = fields.Get(name);
  if (value == nullptr) return {};
  if (!value->is_array()) return {fields.Number(name, range)};
  std::vector<double> numbers;
  for (const json& item : *value) {
    const std::optional<double> number = AsNumber(item, range);
    if (!number) {
      fields.Error(name, fmt::format("found {}, expected a list of numbers, each {}", Found(item), Describe(range)));
      return {};
    }
    numbers.push_back(*number);
  }
  if (numbers.empty()) fields.Error(name, "found an empty list, expected a number, or one for each channel");
  return numbers;
}

NormalizeConfig ReadNormalize(FieldReader fields) {
  NormalizeConfig normalize;
  if (fields.Get("scale") != nullptr) normalize.scale = fields.Number("scale", kPositive);
  normalize.mean = NumberOrList(fields, "mean", kAnyNumber);
  normalize.std = NumberOrList(fields, "std", kPositive);
  fields.RefuseOthers();
  return normalize;
}

// Reads the stages one after the other and knows which were there before.
class PipelineReader {
 public:
  PipelineReader(std::string path, DataConfig::Format format, FieldErrors& errors)
      : path_(std::move(path)), format_(format), errors_(errors) {
    pipeline_.shuffle.kind = ShuffleConfig::Kind::kNone;
    pipeline_.examples.clear();
    pipeline_.prefetch.depth = 0;
  }

  void Stage(const json& value, const std::string& at) {
    if (value.is_string()) return Stage(value.get<std::string>(), json::object(), at);
    if (!value.is_object() || value.size() != 1) {
      errors_.Add(
          at, fmt::format("found {}, expected one stage: a name such as batch, or an object of one such as {{shuffle: {{buffer: 1000}}}}",
                          Found(value)));
      return;
    }
    const auto only = value.begin();
    Stage(only.key(), only.value().is_null() ? json::object() : only.value(), at);
  }

  PipelineConfig Done() && { return std::move(pipeline_); }

 private:
  void Stage(const std::string& name, const json& value, const std::string& at) {
    const auto& names = StageNames();
    if (std::ranges::find(names, name) == names.end()) {
      const std::string_view nearest = NearestName(name, names);
      errors_.Add(fmt::format("{}.{}", at, name), nearest.empty() ? fmt::format("unknown stage; known here: {}", fmt::join(names, ", "))
                                                                  : fmt::format("unknown stage; did you mean \"{}\"?", nearest));
      return;
    }
    CheckPlace(name, at);
    seen_.insert(name);
    // `cache: memory` is a word; every other stage's value is an object.
    if (name == "cache") return ReadCache(value, at);
    FieldReader fields(value, fmt::format("{}.{}", at, name), errors_);
    if (name == "shard") {
      if (!seen_.contains("batch") && !seen_.contains("shuffle") && !seen_.contains("interleave")) pipeline_.shard = ShardBy::kRanks;
    } else if (name == "interleave") {
      pipeline_.interleave.files = fields.Integer("files", {.min = 1, .max = 1 << 20});
      pipeline_.interleave.block = fields.Integer("block", {.min = 1, .max = int64_t{1} << 40}, 1);
    } else if (name == "shuffle") {
      pipeline_.shuffle.kind = ShuffleConfig::Kind::kAll;
      if (fields.Get("buffer") != nullptr) {
        pipeline_.shuffle = {.kind = ShuffleConfig::Kind::kBuffer, .buffer = fields.Integer("buffer", {.min = 1, .max = int64_t{1} << 40})};
      }
    } else if (name == "map") {
      ReadMap(fields);
    } else if (name == "prefetch") {
      pipeline_.prefetch = ParsePrefetch(fields, "depth");
    }
    fields.RefuseOthers();
  }

  // The rules of order; each is said with its reason.
  void CheckPlace(const std::string& name, const std::string& at) {
    const auto wrong = [&](std::string_view why) { errors_.Add(fmt::format("{}.{}", at, name), why); };
    const auto after = [&](const char* stage) { return seen_.contains(stage); };
    const bool may_repeat = name == "map" || name == "cache";
    if (after(name.c_str()) && !may_repeat) return wrong("found again, expected it once");
    if (name == "read" && !seen_.empty()) wrong("expected as the first stage: nothing can be done to examples before they are read");
    if (after("batch") && name != "prefetch" && name != "shard") {
      wrong("found after batch, expected before it: it works on examples, and batches are cut anew in each epoch");
    }
    if (after("prefetch") && name != "shard") wrong("found after prefetch, expected before it: prefetch hands over finished batches");
    if (name == "interleave" && after("shuffle")) wrong("found after shuffle, expected before it: it gives the order that is shuffled");
    if (name == "interleave" && !HasFileList(format_)) wrong("the data of this format does not lie in several files");
    if (name == "cache" && augmented_) {
      wrong("found after a map that flips or shifts, expected before it: the first epoch's images would be kept for all epochs");
    }
  }

  void ReadMap(FieldReader& fields) {
    MapConfig map;
    map.augment.flip = fields.Bool("flip", false);
    map.augment.shift = fields.Integer("shift", {.min = 0, .max = 1024}, 0);
    if (const json* normalize = fields.Get("normalize")) map.normalize = ReadNormalize(fields.Inside("normalize", *normalize));
    augmented_ = augmented_ || map.augment.any();
    if (!map.augment.any() && !map.normalize.any()) {
      errors_.Add(fields.path(), "does nothing, expected some of flip: true, shift: 2, normalize: {mean: 0.13, std: 0.31}");
    }
    pipeline_.examples.emplace_back(std::move(map));
  }

  void ReadCache(const json& value, const std::string& at) {
    CacheConfig cache;
    if (value.is_object() && !value.empty()) {
      FieldReader fields(value, at + ".cache", errors_);
      cache.file = fields.Text("file");
      if (cache.file.empty()) fields.Error("file", "found an empty name, expected the folder that the examples are kept in");
      fields.RefuseOthers();
    } else if (!value.is_object() && value != "memory") {
      errors_.Add(at + ".cache", fmt::format("found {}, expected memory or {{file: FOLDER}}", Found(value)));
    }
    pipeline_.examples.emplace_back(std::move(cache));
  }

  const std::string path_;
  const DataConfig::Format format_;
  FieldErrors& errors_;
  PipelineConfig pipeline_;
  std::set<std::string> seen_;
  bool augmented_ = false;
};

}  // namespace

PipelineConfig ParsePipeline(const json& value, const std::string& path, DataConfig::Format format, FieldErrors& errors) {
  if (!value.is_array() || value.empty()) {
    errors.Add(path, fmt::format("found {}, expected a list of stages such as [read, shuffle, batch, prefetch]", Found(value)));
    return {};
  }
  PipelineReader reader(path, format, errors);
  for (size_t i = 0; i < value.size(); ++i) reader.Stage(value[i], fmt::format("{}[{}]", path, i));
  return std::move(reader).Done();
}

AugmentConfig ParseAugment(FieldReader fields) {
  AugmentConfig augment;
  augment.flip = fields.Bool("flip", false);
  augment.shift = fields.Integer("shift", {.min = 0, .max = 1024}, 0);
  fields.RefuseOthers();
  return augment;
}

PrefetchConfig ParsePrefetch(FieldReader& fields, std::string_view name) {
  PrefetchConfig prefetch;
  if (const json* value = fields.Get(name); value != nullptr && value->is_string()) {
    prefetch.automatic = *value == "auto";
    if (!prefetch.automatic) fields.Error(name, fmt::format("found {}, expected a number of batches from 0 to 64, or auto", Found(*value)));
    return prefetch;
  }
  prefetch.depth = static_cast<int>(fields.Integer(name, {.min = 0, .max = 64}, prefetch.depth));
  return prefetch;
}

bool HasFileList(DataConfig::Format format) {
  using Format = DataConfig::Format;
  return format == Format::kCifar10 || format == Format::kTfRecord || format == Format::kParquet || format == Format::kStore;
}

}  // namespace trainyard::engine
