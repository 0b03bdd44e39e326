// The backend of this machine's processor: activations in panels of 16 samples, kernels compiled
// per instruction set, a pool of threads.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "trainer/backend/backend.h"
#include "trainer/tensor/precision.h"

namespace trainyard::engine {

struct CpuBackendOptions {
  // Compute threads, the caller of Run included; 0: as many as the affinity mask and the cgroup's
  // quota allow.
  int threads = 0;
  // "auto", or one of those that this machine can run: "avx512", "avx2", "baseline", "neon"; for
  // bfloat16 "amx" and "avx512bf16" too.
  std::string isa = "auto";
  Precision precision = Precision::kFloat32;
};

// Results depend on the instruction set, never on the number of threads. InvalidArgument when this
// machine cannot run `isa` or threads < 0. Executors on one backend must not run at the same time.
absl::StatusOr<std::unique_ptr<Backend>> MakeCpuBackend(const CpuBackendOptions& options = {});

// The highest rate of multiply-adds that one thread reaches with these kernels now, in FLOP/s: the
// best of several short runs (some 50 ms). For bfloat16 that of its products, on tiles that stay in
// the nearest cache.
absl::StatusOr<double> MeasurePeakFlops(const std::string& isa = "auto", Precision precision = Precision::kFloat32);

}  // namespace trainyard::engine
