#include "operator/api/main_container.h"

#include <nlohmann/json.hpp>
#include <string>

#include "operator/api/json_read.h"

namespace trainyard::control {

size_t MainContainerIndex(const nlohmann::json& pod) {
  const nlohmann::json& containers = json_read::Get(json_read::Get(pod, "spec"), "containers");
  if (!containers.is_array()) return 0;
  const std::string noted = json_read::String(json_read::Get(json_read::Get(pod, "metadata"), "annotations"), kDefaultContainerAnnotation);
  for (const std::string_view wanted : {kTrainerContainer, std::string_view(noted)}) {
    for (size_t i = 0; i < containers.size(); ++i) {
      if (!wanted.empty() && json_read::String(containers[i], "name") == wanted) return i;
    }
  }
  return 0;
}

}  // namespace trainyard::control
