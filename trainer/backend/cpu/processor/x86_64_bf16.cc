// x86-64: AMX-BF16, which a process may use once the kernel has given it room for tiles, else
// AVX512-BF16. Every processor that has the first has the second, which makes the operands.
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "trainer/backend/cpu/select_bf16.h"

namespace trainyard::engine {

namespace amx {
extern const Bf16Kernels kProducts;  // these only
}
namespace avx512bf16 {
extern const Bf16Kernels kKernels;
}

namespace {

// Linux' arch_prctl: ARCH_REQ_XCOMP_PERM of the state component of tile data
// (Documentation/arch/x86/xstate.rst). It holds for all threads of the process.
bool AskForTiles() {
  constexpr int kRequestPermission = 0x1023;
  constexpr int kTileData = 18;
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

bool HasAvx512Bf16() {
  __builtin_cpu_init();
  return __builtin_cpu_supports("avx512bf16") && __builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512vl") &&
         __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq");
}

// CPUID leaf 7: AMX-BF16 is bit 22 of EDX, AMX-TILE bit 24.
bool HasAmx() {
  constexpr unsigned kNeeded = 1u << 22 | 1u << 24;
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) != 0 && (edx & kNeeded) == kNeeded && AskForTiles();
}

Bf16Kernels TilesAndAvx512() {
  Bf16Kernels kernels = avx512bf16::kKernels;
  kernels.begin = amx::kProducts.begin;
  kernels.end = amx::kProducts.end;
  kernels.product = amx::kProducts.product;
  kernels.product_to_pairs = amx::kProducts.product_to_pairs;
  kernels.winograd_whole = {};
  kernels.winograd = {};  // 16 times the multiply-adds of f32 in a cycle
  return kernels;
}

}  // namespace

std::vector<Bf16Instructions> KnownBf16Instructions() {
  const bool avx512 = HasAvx512Bf16();
  return {{"amx", TilesAndAvx512(), avx512 && HasAmx()}, {"avx512bf16", avx512bf16::kKernels, avx512}};
}

}  // namespace trainyard::engine
