// The few functions of NVIDIA's driver that are called without its toolkit, by the names and types
// of cuda.h and nvml.h, whose binary interface does not change.
#pragma once

#include <array>

namespace trainyard::engine {

// cuda.h
struct CudaUuid {
  std::array<unsigned char, 16> bytes;
};
using CudaResult = int;  // CUresult; 0: done
using CudaInit = CudaResult (*)(unsigned flags);
using CudaGetDevice = CudaResult (*)(int* device, int ordinal);
using CudaGetUuid = CudaResult (*)(CudaUuid* uuid, int device);  // cuDeviceGetUuid_v2: of a MIG slice its own

// nvml.h
struct NvmlMemory {
  unsigned long long total, free, used;  // NOLINT(google-runtime-int): as in nvml.h
};
struct NvmlUtilization {
  unsigned gpu, memory;  // percent
};
using NvmlResult = int;                         // nvmlReturn_t; 0: done
using NvmlDevice = void*;                       // nvmlDevice_t
inline constexpr unsigned kNvmlNameBytes = 96;  // NVML_DEVICE_NAME_V2_BUFFER_SIZE
using NvmlInit = NvmlResult (*)();
using NvmlShutdown = NvmlResult (*)();
using NvmlErrorString = const char* (*)(NvmlResult);
using NvmlFindDevice = NvmlResult (*)(const char* uuid, NvmlDevice* device);
using NvmlGetName = NvmlResult (*)(NvmlDevice device, char* name, unsigned length);
using NvmlGetMemory = NvmlResult (*)(NvmlDevice device, NvmlMemory* memory);
using NvmlGetUtilization = NvmlResult (*)(NvmlDevice device, NvmlUtilization* utilization);

}  // namespace trainyard::engine
