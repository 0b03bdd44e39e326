#include "trainer/predict/prediction_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string_view>
#include <utility>

#include "trainer/base/printable.h"
#include "trainer/data/text/text_tokens.h"
#include "trainer/picture/picture_name.h"

namespace trainyard::engine {
namespace {

using nlohmann::ordered_json;

constexpr size_t kWidestFile = 48;
constexpr size_t kWidestClass = 24;
constexpr size_t kNumberWidth = std::string_view("[999]").size();  // of an example in its file
constexpr size_t kMostValues = 8;                                  // of a line of the table

// Names of files may hold anything.
std::string PlaceOf(const Prediction& prediction) {
  return prediction.index < 0 ? Printable(prediction.file) : fmt::format("{}[{}]", Printable(prediction.file), prediction.index);
}

// A token of a text may be a line's end or a space, of which a table would show nothing.
std::string ShownClass(const std::string& name) {
  const bool visible =
      std::ranges::all_of(name, [](unsigned char c) { return c >= 0x20 && c != 0x7f; }) && name.find_first_not_of(' ') != std::string::npos;
  return visible ? name : Quoted(name);
}

std::string LineOf(const ordered_json& line) { return line.dump(-1, ' ', false, ordered_json::error_handler_t::replace); }

ordered_json PlaceJson(const Prediction& prediction) {
  ordered_json line = {{"file", prediction.file}};
  if (prediction.index >= 0) line["index"] = prediction.index;
  return line;
}

void AddClass(const RankedClass& ranked, std::span<const std::string> classes, ordered_json& to) {
  to["class"] = classes[static_cast<size_t>(ranked.number)];
  to["classNumber"] = ranked.number;
  to["probability"] = ranked.probability;
}

}  // namespace

std::vector<RankedClass> LikeliestOf(std::span<const float> probabilities, int most) {
  std::vector<int> numbers(probabilities.size());
  std::iota(numbers.begin(), numbers.end(), 0);
  const auto end = numbers.begin() + std::min<int64_t>(most, static_cast<int64_t>(numbers.size()));
  std::partial_sort(numbers.begin(), end, numbers.end(),
                    [&](int a, int b) { return probabilities[a] != probabilities[b] ? probabilities[a] > probabilities[b] : a < b; });
  std::vector<RankedClass> likeliest;
  for (auto number = numbers.begin(); number != end; ++number) {
    likeliest.push_back({.number = *number, .probability = probabilities[static_cast<size_t>(*number)]});
  }
  return likeliest;
}

PredictionTable::PredictionTable(std::span<const std::string> files, std::vector<std::string> classes, int top)
    : classes_(std::move(classes)), top_(top) {
  for (const std::string& file : files) {
    // A picture is one example; other files may have several.
    file_width_ = std::max(file_width_, std::min(file.size(), kWidestFile) + (IsPictureName(file) ? 0 : kNumberWidth));
  }
  for (const std::string& name : classes_) class_width_ = std::max(class_width_, std::min(ShownClass(name).size(), kWidestClass));
}

std::string PredictionTable::Cells(std::string_view name, std::string_view probability) const {
  return fmt::format("  {:<{}}  {:>11}", name, class_width_, probability);
}

std::string PredictionTable::Header() const {
  std::string line = fmt::format("{:<{}}", "file", file_width_);
  if (classes_.empty()) return line + "  values";
  for (int i = 0; i < std::min(top_, static_cast<int>(classes_.size())); ++i) line += Cells("class", "probability");
  return line;
}

std::string PredictionTable::Row(const Prediction& prediction) const {
  std::string line = fmt::format("{:<{}}", PlaceOf(prediction), file_width_);
  if (!classes_.empty()) {
    for (const RankedClass& ranked : LikeliestOf(prediction.values, top_)) {
      line += Cells(ShownClass(classes_[static_cast<size_t>(ranked.number)]), fmt::format("{:.4f}", ranked.probability));
    }
    return line;
  }
  for (const float value : prediction.values.first(std::min(prediction.values.size(), kMostValues))) line += fmt::format("  {:.6g}", value);
  if (prediction.values.size() > kMostValues) line += fmt::format("  … {} in all", prediction.values.size());
  return line;
}

std::string PredictionJson(const Prediction& prediction, std::span<const std::string> classes, int top) {
  ordered_json line = PlaceJson(prediction);
  if (classes.empty()) {
    line["values"] = prediction.values;
    return LineOf(line);
  }
  const std::vector<RankedClass> likeliest = LikeliestOf(prediction.values, top);
  AddClass(likeliest[0], classes, line);
  if (top > 1) {
    for (const RankedClass& ranked : likeliest) AddClass(ranked, classes, line["top"].emplace_back());
  }
  return LineOf(line);
}

std::string FailureJson(const std::string& file, const absl::Status& error) {
  return LineOf({{"file", file}, {"error", std::string(error.message())}});
}

}  // namespace trainyard::engine
