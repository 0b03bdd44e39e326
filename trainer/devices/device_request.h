// Where a job or a command line wants to compute: `training.resources.devices`, `--backend`.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace trainyard::engine {

struct DeviceRequest {
  enum class Kind : uint8_t {
    kAuto,  // on GPUs where there are some for this process, else on the processor
    kCpu,
    kCuda,  // on GPUs, or not at all
  };
  Kind kind = Kind::kAuto;
  // kCuda: the GPUs by their numbers among those that the process sees; empty: the first ones.
  std::vector<int> gpus;
  friend bool operator==(const DeviceRequest&, const DeviceRequest&) = default;
};

inline constexpr std::string_view kDeviceWords = "auto, cpu, cuda, or GPUs by number such as cuda:0 or cuda:0,cuda:1";
inline constexpr int kMostGpus = 256;

// "auto", "cpu", "cuda", "cuda:1", "cuda:0,cuda:1". InvalidArgument says what was found, in words
// that follow the field's name.
absl::StatusOr<DeviceRequest> ParseDeviceRequest(std::string_view text);
// The way back.
std::string DeviceRequestText(const DeviceRequest& request);

}  // namespace trainyard::engine
