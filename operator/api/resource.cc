#include "operator/api/resource.h"

#include <fmt/format.h>

namespace trainyard::control {

std::string Resource::Path(std::string_view ns, std::string_view name, std::string_view subresource) const {
  std::string path = group.empty() ? fmt::format("/api/{}", version) : fmt::format("/apis/{}/{}", group, version);
  if (namespaced && !ns.empty()) path += fmt::format("/namespaces/{}", ns);
  path += fmt::format("/{}", plural);
  if (!name.empty()) path += fmt::format("/{}", name);
  if (!subresource.empty()) path += fmt::format("/{}", subresource);
  return path;
}

std::string Resource::ApiVersion() const { return group.empty() ? std::string(version) : fmt::format("{}/{}", group, version); }

std::string ObjectKey(std::string_view ns, std::string_view name) {
  return ns.empty() ? std::string(name) : fmt::format("{}/{}", ns, name);
}

NamespacedName SplitKey(std::string_view key) {
  const size_t slash = key.find('/');
  if (slash == std::string_view::npos) return {"", std::string(key)};
  return {std::string(key.substr(0, slash)), std::string(key.substr(slash + 1))};
}

}  // namespace trainyard::control
