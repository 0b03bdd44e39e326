#include "trainer/page/settings.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace trainyard::engine {
namespace {

using nlohmann::ordered_json;
using Lines = std::vector<std::pair<std::string, std::string>>;

std::string SettingText(const ordered_json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (!value.is_array()) return value.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
  std::vector<std::string> items;
  for (const ordered_json& item : value) items.push_back(SettingText(item));
  return fmt::format("[{}]", fmt::join(items, ", "));
}

void AppendSetting(const std::string& path, const ordered_json& value, Lines& lines) {
  const bool plain_list = value.is_array() && std::ranges::none_of(value, [](const ordered_json& item) { return item.is_structured(); });
  if (!value.is_structured() || value.empty() || plain_list) {
    lines.emplace_back(path, SettingText(value));
  } else if (value.is_array()) {
    for (size_t i = 0; i < value.size(); ++i) AppendSetting(fmt::format("{}[{}]", path, i), value[i], lines);
  } else {
    for (const auto& [key, item] : value.items()) AppendSetting(path.empty() ? key : path + "." + key, item, lines);
  }
}

}  // namespace

std::vector<std::pair<std::string, std::string>> SettingLines(const ordered_json& settings) {
  Lines lines;
  AppendSetting("", settings, lines);
  return lines;
}

}  // namespace trainyard::engine
