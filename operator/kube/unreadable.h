// Objects that cannot be read: which ones they are, as far as that can be told.
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace trainyard::control {

// One object in the midst of a list or a watch. Text is empty where it is not known.
struct Unreadable {
  std::string ns{};
  std::string name{};
  std::string uid{};
  std::string resource_version{};
  bool gone = false;      // of an event that tells of its end
  std::string problem{};  // what was found, and what was expected

  // "namespace/name", or "name".
  std::string Key() const { return ns.empty() ? name : ns + "/" + name; }
};

using UnreadableHandler = std::function<void(const Unreadable&)>;

// Reads the metadata in the text of an object or of a watch's event. The text after the metadata is
// not looked at: it may be cut off, nested however deeply, or not JSON.
Unreadable IdentifyObject(std::string_view text, std::string problem);
Unreadable IdentifyEvent(std::string_view text, std::string problem);

}  // namespace trainyard::control
