#include "operator/api/main_container.h"

#include <nlohmann/json.hpp>
#include <string>

#include "operator/api/json_read.h"

namespace trainyard::control {

size_t MainContainerIndex(const nlohmann::json& containers, const nlohmann::json& annotations) {
  if (!containers.is_array()) return 0;
  const std::string noted = json_read::String(annotations, kDefaultContainerAnnotation);
  for (const std::string_view wanted : {kTrainerContainer, std::string_view(noted)}) {
    for (size_t i = 0; i < containers.size(); ++i) {
      if (!wanted.empty() && json_read::String(containers[i], "name") == wanted) return i;
    }
  }
  return 0;
}

}  // namespace trainyard::control
