#include "trainer/data/formats/tf_example.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "trainer/base/status_macros.h"
#include "trainer/data/proto/example.pb.h"

namespace trainyard::engine {
namespace {

constexpr size_t kNamesShown = 10;

std::string NamesOf(const proto::Features& features) {
  std::vector<std::string> names;
  for (const auto& [name, feature] : features.feature()) names.push_back(fmt::format("\"{}\"", name.substr(0, 64)));
  if (names.empty()) return "none";
  std::ranges::sort(names);
  const size_t more = names.size() - std::min(names.size(), kNamesShown);
  names.resize(names.size() - more);
  return more == 0 ? fmt::format("{}", fmt::join(names, ", ")) : fmt::format("{} and {} more", fmt::join(names, ", "), more);
}

// Pictures are often stored packed; that is worth a message of its own.
std::string_view PackedImageKind(std::string_view bytes) {
  if (bytes.starts_with("\x89PNG")) return "PNG";
  if (bytes.starts_with("\xff\xd8\xff")) return "JPEG";
  return "";
}

template <typename Values>
Elements View(ElementType type, const Values& values) {
  return {.type = type, .data = reinterpret_cast<const std::byte*>(values.data()), .count = static_cast<int64_t>(values.size())};
}

absl::StatusOr<Elements> ElementsOf(const proto::Features& features, const std::string& name) {
  const auto found = features.feature().find(name);
  if (found == features.feature().end()) {
    return absl::InvalidArgumentError(
        fmt::format("has no feature \"{}\"; it has {}. Name the right ones in data.features", name, NamesOf(features)));
  }
  const proto::Feature& feature = found->second;
  switch (feature.kind_case()) {
    case proto::Feature::kFloatList:
      return View(ElementType::kF32, feature.float_list().value());
    case proto::Feature::kInt64List:
      return View(ElementType::kI64, feature.int64_list().value());
    case proto::Feature::kBytesList:
      break;
    case proto::Feature::KIND_NOT_SET:
      return absl::InvalidArgumentError(fmt::format("has an empty feature \"{}\", expected a bytes_list, float_list or int64_list", name));
  }
  const auto& texts = feature.bytes_list().value();
  if (texts.size() != 1) {
    return absl::InvalidArgumentError(
        fmt::format("has {} byte strings in feature \"{}\", expected one with the raw pixels", texts.size(), name));
  }
  if (const std::string_view kind = PackedImageKind(texts[0]); !kind.empty()) {
    return absl::InvalidArgumentError(
        fmt::format("has a {} file in feature \"{}\"; only raw pixels are read: decode images when the file is made", kind, name));
  }
  return View(ElementType::kU8, texts[0]);
}

}  // namespace

struct TfExampleParser::Message {
  proto::Example example;
};

TfExampleParser::TfExampleParser(FeatureNames names) : names_(std::move(names)), message_(std::make_unique<Message>()) {}

TfExampleParser::~TfExampleParser() = default;

absl::StatusOr<TfExampleParser::Parsed> TfExampleParser::Parse(std::string_view record) {
  if (record.size() > static_cast<size_t>(std::numeric_limits<int>::max()) ||
      !message_->example.ParseFromArray(record.data(), static_cast<int>(record.size()))) {
    return absl::InvalidArgumentError(fmt::format("of {} bytes is not a tf.Example", record.size()));
  }
  Parsed parsed;
  TY_ASSIGN_OR_RETURN(parsed.image, ElementsOf(message_->example.features(), names_.image));
  TY_ASSIGN_OR_RETURN(parsed.label, ElementsOf(message_->example.features(), names_.label));
  return parsed;
}

}  // namespace trainyard::engine
