#include "trainer/commands/data_stats.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>
#include <span>
#include <string_view>
#include <utility>

#include "trainer/base/counted.h"
#include "trainer/data/text/vocabulary.h"
#include "trainer/report/number_text.h"

namespace trainyard::engine {
namespace {

using nlohmann::ordered_json;

constexpr int64_t kAtOnce = 64;
constexpr size_t kMostErrors = 20;
constexpr size_t kMostRows = 50;  // of a table

// Mean and squares as numbers come (Welford 1962).
class Moments {
 public:
  void Add(double value) {
    ++count_;
    const double before = value - mean_;
    mean_ += before / static_cast<double>(count_);
    squares_ += before * (value - mean_);
    minimum_ = std::min(minimum_, value);
    maximum_ = std::max(maximum_, value);
  }
  ChannelStats Done() const {
    if (count_ == 0) return {};
    return {.mean = mean_, .deviation = std::sqrt(squares_ / static_cast<double>(count_)), .minimum = minimum_, .maximum = maximum_};
  }

 private:
  int64_t count_ = 0;
  double mean_ = 0;
  double squares_ = 0;
  double minimum_ = std::numeric_limits<double>::infinity();
  double maximum_ = -std::numeric_limits<double>::infinity();
};

class Counter {
 public:
  Counter(const Dataset& dataset, int classes) : dataset_(dataset) {
    const DatasetInfo& info = dataset.info();
    stats_ = {.name = info.name, .examples = info.examples, .shape = info.example_shape};
    if (classes > 0 && info.label_shape.rank() == 0) stats_.class_counts.assign(static_cast<size_t>(classes), 0);
    moments_.resize(info.example_shape.rank() == 3 ? static_cast<size_t>(info.example_shape[2]) : 1);
  }

  void Read() {
    std::vector<int64_t> indices;
    for (int64_t begin = 0; begin < stats_.examples; begin += kAtOnce) {
      indices.resize(static_cast<size_t>(std::min(kAtOnce, stats_.examples - begin)));
      std::iota(indices.begin(), indices.end(), begin);
      if (dataset_.Read(indices, batch_).ok()) {
        Add(indices);
        continue;
      }
      for (const int64_t index : indices) {  // to tell the damaged ones from the others
        const absl::Status status = dataset_.Read(std::span(&index, 1), batch_);
        if (status.ok()) {
          Add(std::span(&index, 1));
        } else {
          AddDamaged(std::string(status.message()));
        }
      }
    }
  }

  DataStats Done() && {
    for (const Moments& moments : moments_) stats_.channels.push_back(moments.Done());
    return std::move(stats_);
  }

 private:
  void Add(std::span<const int64_t> indices) {
    values_.resize(static_cast<size_t>(batch_.x.shape.elements()));
    CopyExamplesAsF32(batch_, values_);
    for (size_t row = 0; row < indices.size(); ++row) {
      const std::span<const float> x = RowOf(values_, row);
      const std::span<const float> y =
          batch_.y.dtype == DType::kF32 ? RowOf(batch_.y.values<const float>(), row) : std::span<const float>();
      if (IsFinite("numbers", indices[row], x) && IsFinite("numbers in its label", indices[row], y)) AddOne(row, x);
    }
  }

  void AddOne(size_t row, std::span<const float> x) {
    for (size_t i = 0; i < x.size(); ++i) moments_[i % moments_.size()].Add(static_cast<double>(x[i]));
    if (!stats_.class_counts.empty()) ++stats_.class_counts[static_cast<size_t>(batch_.y.values<const int32_t>()[row])];
  }

  std::span<const float> RowOf(std::span<const float> all, size_t row) const {
    const size_t each = all.size() / static_cast<size_t>(batch_.examples);
    return all.subspan(row * each, each);
  }

  // Else the example is damaged.
  bool IsFinite(std::string_view what, int64_t index, std::span<const float> numbers) {
    const auto wrong = std::ranges::count_if(numbers, [](float number) { return !std::isfinite(number); });
    if (wrong == 0) return true;
    AddDamaged(fmt::format("{}: example {} has {} that are not finite: {} of {}", stats_.name, index, what, wrong, numbers.size()));
    return false;
  }

  void AddDamaged(std::string error) {
    if (stats_.damaged++ < static_cast<int64_t>(kMostErrors)) stats_.errors.push_back(std::move(error));
  }

  const Dataset& dataset_;
  DataStats stats_;
  std::vector<Moments> moments_;
  Batch batch_;
  std::vector<float> values_;
};

}  // namespace

DataStats StatsOf(const Dataset& dataset, int classes) {
  const DatasetInfo& info = dataset.info();
  if (info.stream_steps > 0) {
    return DataStats{.name = info.name,
                     .examples = info.examples + info.stream_steps,  // one begins at each token but the last steps
                     .shape = info.example_shape,
                     .vocabulary = info.vocabulary != nullptr ? static_cast<int64_t>(info.vocabulary->size()) : 0};
  }
  Counter counter(dataset, classes);
  counter.Read();
  return std::move(counter).Done();
}

std::string StatsText(const std::string& split, const DataStats& stats, const std::vector<std::string>& classes) {
  if (stats.vocabulary > 0) {
    return fmt::format("{}: {} tokens, {} different ones, of {}\n", split, stats.examples, stats.vocabulary, stats.name);
  }
  std::string text =
      fmt::format("{}: {} of shape {}, of {}\n", split, Counted(stats.examples, "example"), stats.shape.ToString(), stats.name);
  for (size_t channel = 0; channel < stats.channels.size(); ++channel) {
    const ChannelStats& numbers = stats.channels[channel];
    text +=
        fmt::format("  {:<9} mean {}  std {}  from {} to {}\n", stats.channels.size() == 1 ? "numbers" : fmt::format("channel {}", channel),
                    MetricText(numbers.mean), MetricText(numbers.deviation), MetricText(numbers.minimum), MetricText(numbers.maximum));
  }
  for (size_t label = 0; label < std::min(kMostRows, stats.class_counts.size()); ++label) {
    text += fmt::format("  {:>9}  {}\n", stats.class_counts[label], classes[label]);
  }
  if (stats.class_counts.size() > kMostRows) text += fmt::format("  … and {} more classes\n", stats.class_counts.size() - kMostRows);
  if (stats.damaged > 0) text += fmt::format("  {} {} damaged:\n", Counted(stats.damaged, "example"), stats.damaged == 1 ? "is" : "are");
  for (const std::string& error : stats.errors) text += fmt::format("    {}\n", error);
  return text;
}

ordered_json StatsJson(const DataStats& stats, const std::vector<std::string>& classes) {
  ordered_json json = {{"data", stats.name}};
  json[stats.vocabulary > 0 ? "tokens" : "examples"] = stats.examples;
  json["shape"] = stats.shape.extents();
  if (stats.vocabulary > 0) json["vocabulary"] = stats.vocabulary;
  for (const ChannelStats& numbers : stats.channels) {
    json["channels"].push_back({{"mean", numbers.mean}, {"std", numbers.deviation}, {"min", numbers.minimum}, {"max", numbers.maximum}});
  }
  for (size_t label = 0; label < stats.class_counts.size(); ++label) {
    json["classes"].push_back({{"class", classes[label]}, {"examples", stats.class_counts[label]}});
  }
  if (stats.damaged > 0) {
    json["damaged"] = stats.damaged;
    json["errors"] = stats.errors;
  }
  return json;
}

}  // namespace trainyard::engine
