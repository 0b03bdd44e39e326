#include "trainer/predict/json_examples.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>

#include "trainer/predict/line_reader.h"

namespace trainyard::engine {
namespace {

using nlohmann::json;

constexpr size_t kBytesPerNumber = 64;  // more than any number and its brackets take
constexpr size_t kMinLineBytes = 64 << 10;

// Numbers of a nested array in C order, as the parser finds them, with the shape that they have.
class NumbersOfArray final : public nlohmann::json_sax<json> {
 public:
  explicit NumbersOfArray(size_t most) : most_(most) {}

  bool number_integer(number_integer_t value) override { return Add(static_cast<double>(value)); }
  bool number_unsigned(number_unsigned_t value) override { return Add(static_cast<double>(value)); }
  bool number_float(number_float_t value, const string_t&) override { return Add(value); }
  bool start_array(size_t) override {
    ++depth_;
    if (depth_ > Shape::kMaxRank) return Refuse("lists in lists deeper than any model takes");
    if (depth_ > extents_.size()) {
      if (leaves_) return Refuse("lists of unequal depth");
      extents_.push_back(std::nullopt);
    }
    counts_.push_back(0);
    return true;
  }
  bool end_array() override {
    const int64_t count = counts_.back();
    counts_.pop_back();
    std::optional<int64_t>& extent = extents_[--depth_];
    if (extent && *extent != count) return Refuse("lists of unequal length");
    extent = count;
    if (!counts_.empty()) ++counts_.back();
    return true;
  }
  bool null() override { return Refuse("null"); }
  bool boolean(bool) override { return Refuse("true or false"); }
  bool string(string_t&) override { return Refuse("a text"); }
  bool binary(binary_t&) override { return Refuse("bytes"); }
  bool start_object(size_t) override { return Refuse("an object"); }
  bool key(string_t&) override { return false; }
  bool end_object() override { return false; }
  bool parse_error(size_t position, const std::string&, const json::exception&) override {
    return Refuse(fmt::format("invalid JSON at character {}", position));
  }

  const std::string& problem() const { return problem_; }
  const std::vector<float>& numbers() const { return numbers_; }
  Shape shape() const {
    std::vector<int64_t> extents;
    for (const std::optional<int64_t>& extent : extents_) extents.push_back(extent.value_or(0));
    return Shape(extents);
  }

 private:
  bool Add(double value) {
    if (depth_ == 0) return Refuse("a number");
    if (depth_ != extents_.size()) return Refuse("lists of unequal depth");
    leaves_ = true;
    ++counts_.back();
    const auto number = static_cast<float>(value);
    if (!std::isfinite(number)) return Refuse("a number that is too large");
    if (numbers_.size() >= most_) return Refuse(fmt::format("more than {} numbers", most_));
    numbers_.push_back(number);
    return true;
  }
  bool Refuse(std::string what) {
    if (problem_.empty()) problem_ = std::move(what);
    return false;
  }

  const size_t most_;
  std::vector<std::optional<int64_t>> extents_;  // known after the first list of a depth
  std::vector<int64_t> counts_;                  // of the lists that are open
  size_t depth_ = 0;
  bool leaves_ = false;  // a number was seen: no list goes deeper
  std::vector<float> numbers_;
  std::string problem_;
};

class JsonLinesReader final : public ExampleReader {
 public:
  JsonLinesReader(std::istream& lines, const ExampleForm& form)
      : lines_(lines, kMinLineBytes + kBytesPerNumber * static_cast<size_t>(form.shape.elements())), form_(form) {}

  absl::StatusOr<bool> Next(Example& example) override {
    const LineReader::Found found = lines_.Next();
    if (found == LineReader::Found::kEnd) return false;
    if (found == LineReader::Found::kTooLong) return Wrong(fmt::format("more than {} bytes", lines_.most_bytes()));
    NumbersOfArray array(static_cast<size_t>(form_.shape.elements()));
    if (!json::sax_parse(lines_.line(), &array)) return Wrong(array.problem());
    if (!IsOneExample(array.shape(), form_.shape)) return Wrong(fmt::format("an array of {}", array.shape().ToString()));
    example.dtype = DType::kF32;
    example.index = lines_.number() - 1;
    example.bytes.resize(array.numbers().size() * sizeof(float));
    std::memcpy(example.bytes.data(), array.numbers().data(), example.bytes.size());
    return true;
  }

 private:
  absl::Status Wrong(std::string_view found) const {
    return absl::InvalidArgumentError(
        fmt::format("line {}: found {}, expected an array of numbers of shape {}", lines_.number(), found, form_.shape.ToString()));
  }

  LineReader lines_;
  const ExampleForm form_;
};

}  // namespace

std::unique_ptr<ExampleReader> ReadJsonLines(std::istream& lines, const ExampleForm& form) {
  return std::make_unique<JsonLinesReader>(lines, form);
}

}  // namespace trainyard::engine
