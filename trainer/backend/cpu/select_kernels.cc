#include "trainer/backend/cpu/select_kernels.h"

#include <fmt/format.h>

#include <string>

namespace trainyard::engine {

absl::StatusOr<const KernelTable*> SelectKernels(std::string_view isa) {
  if (isa.empty() || isa == "auto") return RunnableKernels().front();
  std::string known;
  for (const KernelTable* table : RunnableKernels()) {
    if (table->isa == isa) return table;
    known += fmt::format("{}'{}'", known.empty() ? "" : ", ", table->isa);
  }
  return absl::InvalidArgumentError(
      fmt::format("cpu kernels '{}' are unknown or not supported by this processor; it runs {} or 'auto'", isa, known));
}

}  // namespace trainyard::engine
