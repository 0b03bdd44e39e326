#include "trainer/devices/choose_devices.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>

namespace trainyard::engine {
namespace {

using Kind = DeviceRequest::Kind;

std::string GpusText(int count) { return count == 1 ? "1 GPU" : fmt::format("{} GPUs", count); }

// "2 GPUs are visible, as CUDA_VISIBLE_DEVICES=4,5 says"
std::string SeenText(int count, const GpuEnvironment& environment) {
  std::string text = count == 0 ? "no GPU is visible" : count == 1 ? "1 GPU is visible" : fmt::format("{} GPUs are visible", count);
  if (environment.cuda_visible) text += fmt::format(" with CUDA_VISIBLE_DEVICES={}", *environment.cuda_visible);
  return text;
}

// Why the environment alone forbids GPUs; nothing: the driver has the word.
std::optional<std::string> ForbiddenBy(const GpuEnvironment& environment) {
  const auto& cuda = environment.cuda_visible;
  if (cuda && (cuda->empty() || cuda->starts_with("-1"))) return fmt::format("CUDA_VISIBLE_DEVICES={} hides all GPUs", *cuda);
  const auto& nvidia = environment.nvidia_visible;
  if (!environment.in_pod || !nvidia || cuda) return std::nullopt;
  if (nvidia->empty() || *nvidia == "none") return fmt::format("the pod was given no GPU (NVIDIA_VISIBLE_DEVICES={})", *nvidia);
  if (*nvidia == "all") return "the pod was given no GPU of its own: NVIDIA_VISIBLE_DEVICES=all comes from its image";
  return std::nullopt;
}

// What the driver shows; an answer of 0 is an error with a reason, too.
absl::StatusOr<int> Seen(const GpuEnvironment& environment, const GpuCount& ask_driver) {
  const absl::StatusOr<int> count = ask_driver();
  if (count.ok() && *count > 0) return count;
  std::string reason = count.ok() ? SeenText(0, environment) : std::string(count.status().message());
  if (!count.ok() && environment.cuda_visible && reason.find("CUDA_VISIBLE_DEVICES") == std::string::npos) {
    reason += fmt::format(" (CUDA_VISIBLE_DEVICES={})", *environment.cuda_visible);
  }
  return absl::UnavailableError(reason);
}

std::string UnusedText(int seen, int devices) {
  if (devices >= seen) return "";
  return fmt::format("{} of {} are not used: training.devices: {} trains on all of them", GpusText(seen - devices), seen, seen);
}

DeviceChoice ChooseFreely(const WantedDevices& wanted, const GpuEnvironment& environment, const GpuCount& ask_driver) {
  if (const auto forbidden = ForbiddenBy(environment)) return {.gpus = {}, .reason = *forbidden, .advice = ""};
  const absl::StatusOr<int> seen = Seen(environment, ask_driver);
  if (!seen.ok()) return {.gpus = {}, .reason = std::string(seen.status().message()), .advice = ""};
  DeviceChoice choice{.gpus = {}, .reason = SeenText(*seen, environment), .advice = ""};
  const int before = environment.in_pod ? 0 : wanted.before;
  for (int device = 0; device < wanted.count; ++device) choice.gpus.push_back((before + device) % *seen);
  if (wanted.count > *seen) {
    choice.advice = fmt::format("{} devices share {}: training.devices: {} is as fast", wanted.count, GpusText(*seen), *seen);
  } else if (environment.in_pod) {
    choice.advice = UnusedText(*seen, wanted.count);
  }
  return choice;
}

absl::StatusOr<DeviceChoice> ChooseGpus(const WantedDevices& wanted, const GpuEnvironment& environment, const GpuCount& ask_driver) {
  const std::string text = DeviceRequestText(wanted.request);
  const auto refuse = [&](std::string_view why, std::string_view remedy) {
    return absl::FailedPreconditionError(fmt::format("{}: found {}, but {}; {}", wanted.field, text, why, remedy));
  };
  const absl::StatusOr<int> seen = Seen(environment, ask_driver);
  if (!seen.ok()) {
    return refuse(std::string(seen.status().message()),
                  environment.in_pod ? "ask for nvidia.com/gpu in the replica's limits, or take auto or cpu (docs/gpus.md)"
                                     : "take auto or cpu, or see docs/gpus.md");
  }
  const std::vector<int>& named = wanted.request.gpus;
  const int most = named.empty() ? wanted.count - 1 : *std::ranges::max_element(named);
  if (most >= *seen) {
    const std::string known = *seen == 1 ? "take cuda:0" : fmt::format("take some of cuda:0 to cuda:{}", *seen - 1);
    return refuse(SeenText(*seen, environment) + (named.empty() ? fmt::format(" for {} devices", wanted.count) : ""),
                  named.empty() ? fmt::format("take training.devices: {}, or auto", *seen) : known);
  }
  DeviceChoice choice{.gpus = {}, .reason = fmt::format("{} asks for {}", wanted.field, text), .advice = ""};
  for (int device = 0; device < wanted.count; ++device) {
    choice.gpus.push_back(named.empty() ? device : named[static_cast<size_t>(device) % named.size()]);
  }
  return choice;
}

}  // namespace

absl::StatusOr<DeviceChoice> ChooseDevices(const WantedDevices& wanted, const GpuEnvironment& environment, const GpuCount& ask_driver) {
  switch (wanted.request.kind) {
    case Kind::kCpu:
      return DeviceChoice{.gpus = {}, .reason = fmt::format("{} asks for cpu", wanted.field), .advice = ""};
    case Kind::kCuda:
      return ChooseGpus(wanted, environment, ask_driver);
    case Kind::kAuto:
      break;
  }
  return ChooseFreely(wanted, environment, ask_driver);
}

std::vector<int> DeviceChoice::DistinctGpus() const {
  std::vector<int> distinct = gpus;
  std::ranges::sort(distinct);
  distinct.erase(std::ranges::unique(distinct).begin(), distinct.end());
  return distinct;
}

std::string ChosenText(const DeviceChoice& choice) {
  if (choice.gpus.empty()) return "cpu";
  return fmt::format("cuda:{}", fmt::join(choice.DistinctGpus(), " and cuda:"));
}

}  // namespace trainyard::engine
