// A library with the functions of NVIDIA's driver that the meter calls, for its tests. It has a
// whole GPU, cuda:0, a slice of another one, cuda:1, and one that NVML does not know, cuda:2.
#include <cstdio>
#include <cstring>

#include "trainer/devices/driver_functions.h"

using trainyard::engine::CudaUuid;
using trainyard::engine::NvmlDevice;
using trainyard::engine::NvmlMemory;
using trainyard::engine::NvmlUtilization;

namespace {

constexpr int kInvalid = 101;
constexpr int kNotFound = 6;
constexpr int kNotSupported = 3;
bool cuda_started = false;
int nvml_starts = 0;
char whole, slice;
unsigned long long used = 1000;  // NOLINT(google-runtime-int)

}  // namespace

// NOLINTBEGIN(readability-identifier-naming): the names are NVIDIA's
extern "C" {

int cuInit(unsigned) {
  cuda_started = true;
  return 0;
}

int cuDeviceGet(int* device, int ordinal) {
  if (!cuda_started || ordinal < 0 || ordinal > 2) return kInvalid;
  *device = 70 + ordinal;
  return 0;
}

int cuDeviceGetUuid_v2(CudaUuid* uuid, int device) {
  uuid->bytes.fill(0xab);
  uuid->bytes[15] = static_cast<unsigned char>(device - 70);
  return 0;
}

int nvmlInit_v2() {
  ++nvml_starts;
  return 0;
}

int nvmlShutdown() {
  --nvml_starts;
  return 0;
}

int FakeNvmlStarts() { return nvml_starts; }

const char* nvmlErrorString(int) { return "Not Found"; }

int nvmlDeviceGetHandleByUUID(const char* uuid, NvmlDevice* device) {
  if (std::strcmp(uuid, "GPU-abababab-abab-abab-abab-ababababab00") == 0) {
    *device = &whole;
    return 0;
  }
  if (std::strcmp(uuid, "MIG-abababab-abab-abab-abab-ababababab01") == 0) {
    *device = &slice;
    return 0;
  }
  return kNotFound;
}

int nvmlDeviceGetName(NvmlDevice device, char* name, unsigned length) {
  std::snprintf(name, length, "%s", device == &whole ? "Fake 80GB" : "Fake 80GB MIG 1g.10gb");
  return 0;
}

int nvmlDeviceGetMemoryInfo(NvmlDevice device, NvmlMemory* memory) {
  *memory = {.total = device == &whole ? 80'000ULL : 10'000ULL, .free = 0, .used = used};
  used += 500;
  return 0;
}

int nvmlDeviceGetUtilizationRates(NvmlDevice device, NvmlUtilization* utilization) {
  if (device == &slice) return kNotSupported;
  *utilization = {.gpu = 87, .memory = 12};
  return 0;
}

}  // extern "C"
// NOLINTEND(readability-identifier-naming)
