// Which container of a pod is the replica's own. Injectors put theirs before or behind it: the
// proxy of Linkerd and, with holdApplicationUntilProxyStarts, of Istio comes first.
#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <string_view>

namespace trainyard::control {

inline constexpr std::string_view kTrainerContainer = "trainer";

// The container that kubectl takes for logs and exec where none is named. The operator sets it on
// pods whose template does not, and so finds the replica's container in them again.
inline constexpr char kDefaultContainerAnnotation[] = "kubectl.kubernetes.io/default-container";

// The index in spec.containers of a pod, or of a template, of the container called trainer, else of
// the container that the annotation names, else 0. Any part may be of any type.
size_t MainContainerIndex(const nlohmann::json& pod);

}  // namespace trainyard::control
