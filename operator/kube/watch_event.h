// One line of a watch.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string_view>

namespace trainyard::control {

enum class WatchEventType { kAdded, kModified, kDeleted, kBookmark };

std::string_view WatchEventTypeName(WatchEventType type);

}  // namespace trainyard::control
