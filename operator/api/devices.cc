#include "operator/api/devices.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "operator/api/json_read.h"
#include "operator/api/quantity.h"

namespace trainyard::control {
namespace {

using nlohmann::json;

constexpr std::array<std::string_view, 5> kWholeGpus = {"nvidia.com/gpu", "amd.com/gpu", "gpu.intel.com/i915", "gpu.intel.com/xe",
                                                        "habana.ai/gaudi"};
constexpr int kMostGpus = 1'000;  // of one container
constexpr int kThousandths = 1'000;

// Whole units, rounded up; 0 for what is no quantity, which the API server refuses.
int Units(const json& value) {
  const std::string text = value.is_string() ? value.get<std::string>() : value.is_number() ? value.dump() : "";
  const auto amount = ParseQuantity(text);
  if (!amount) return 0;
  const absl::uint128 units = (*amount + kThousandths - 1) / kThousandths;
  return static_cast<int>(std::min<absl::uint128>(units, kMostGpus));
}

}  // namespace

int WholeGpus(const json& resources) {
  int gpus = 0;
  for (const std::string_view name : kWholeGpus) {
    // The API server sets the one from the other, and refuses two that differ.
    gpus += std::max(Units(json_read::Get(json_read::Get(resources, "limits"), name)),
                     Units(json_read::Get(json_read::Get(resources, "requests"), name)));
  }
  return gpus;
}

bool AsksForDevice(const json& resources) {
  for (const char* kind : {"limits", "requests"}) {
    const json& amounts = json_read::Get(resources, kind);
    if (!amounts.is_object()) continue;
    for (const auto& [name, amount] : amounts.items()) {
      if (name.find('/') != std::string::npos && Units(amount) > 0) return true;
    }
  }
  const json& claims = json_read::Get(resources, "claims");
  return claims.is_array() && !claims.empty();
}

}  // namespace trainyard::control
