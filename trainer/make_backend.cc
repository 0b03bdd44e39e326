#include "trainer/commands/make_backend.h"

#include <fmt/format.h>

#include "trainer/backend/cpu/cpu_backend.h"
#include "trainer/backend/reference/reference_backend.h"

namespace trainyard::engine {

absl::StatusOr<std::unique_ptr<Backend>> MakeBackend(std::string_view name, int threads) {
  if (name == "cpu") return MakeCpuBackend({.threads = threads});
  if (name == "reference") return MakeReferenceBackend();
  return absl::InvalidArgumentError(fmt::format("--backend: found '{}', expected cpu or reference", name));
}

}  // namespace trainyard::engine
