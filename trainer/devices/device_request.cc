#include "trainer/devices/device_request.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "absl/strings/str_split.h"

namespace trainyard::engine {
namespace {

using Kind = DeviceRequest::Kind;

// "cuda:12" → 12
std::optional<int> GpuOf(std::string_view text) {
  constexpr std::string_view kPrefix = "cuda:";
  if (!text.starts_with(kPrefix)) return std::nullopt;
  text.remove_prefix(kPrefix.size());
  int gpu = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), gpu);
  const bool whole = error == std::errc() && end == text.data() + text.size();
  return whole && gpu >= 0 && gpu < kMostGpus ? std::optional<int>(gpu) : std::nullopt;
}

absl::Status Wrong(std::string_view text) {
  return absl::InvalidArgumentError(fmt::format("found \"{}\", expected {}", text, kDeviceWords));
}

}  // namespace

absl::StatusOr<DeviceRequest> ParseDeviceRequest(std::string_view text) {
  if (text == "auto") return DeviceRequest{.kind = Kind::kAuto, .gpus = {}};
  if (text == "cpu") return DeviceRequest{.kind = Kind::kCpu, .gpus = {}};
  if (text == "cuda") return DeviceRequest{.kind = Kind::kCuda, .gpus = {}};
  DeviceRequest request{.kind = Kind::kCuda, .gpus = {}};
  for (const absl::string_view part : absl::StrSplit(absl::string_view(text.data(), text.size()), ',')) {
    const std::optional<int> gpu = GpuOf({part.data(), part.size()});
    if (!gpu) return Wrong(text);
    if (std::ranges::find(request.gpus, *gpu) != request.gpus.end()) {
      return absl::InvalidArgumentError(fmt::format("found \"{}\", expected each GPU once, but cuda:{} is there twice", text, *gpu));
    }
    request.gpus.push_back(*gpu);
  }
  return request;
}

std::string DeviceRequestText(const DeviceRequest& request) {
  if (request.kind == Kind::kAuto) return "auto";
  if (request.kind == Kind::kCpu) return "cpu";
  return request.gpus.empty() ? "cuda" : fmt::format("cuda:{}", fmt::join(request.gpus, ",cuda:"));
}

}  // namespace trainyard::engine
