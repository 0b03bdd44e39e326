#include "trainer/commands/make_backend.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "trainer/backend/cpu/cpu_backend.h"
#include "trainer/backend/cuda/cuda_backend.h"
#include "trainer/backend/reference/reference_backend.h"
#include "trainer/base/cpu_quota.h"
#include "trainer/base/status_macros.h"

namespace trainyard::engine {

absl::StatusOr<std::unique_ptr<Backend>> MakeBackend(std::string_view name, int threads, Precision precision) {
  if (name == "cpu") return MakeCpuBackend({.threads = threads, .precision = precision});
  if (name == "reference") return MakeReferenceBackend(DType::kF32, precision);
  if (name == "cuda") return MakeCudaBackend({.precision = precision});
  return absl::InvalidArgumentError(fmt::format("--backend: found '{}', expected cpu, cuda or reference", name));
}

absl::StatusOr<std::vector<std::unique_ptr<Backend>>> MakeDeviceBackends(std::string_view name, int threads, int devices,
                                                                         Precision precision) {
  const int all = threads > 0 ? threads : CpuQuota();
  std::vector<std::unique_ptr<Backend>> backends;
  for (int device = 0; device < devices; ++device) {
    const int share = all * (device + 1) / devices - all * device / devices;
    TY_ASSIGN_OR_RETURN(std::unique_ptr<Backend> backend, MakeBackend(name, std::max(1, share), precision));
    backends.push_back(std::move(backend));
  }
  return backends;
}

}  // namespace trainyard::engine
