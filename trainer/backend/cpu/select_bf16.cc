#include "trainer/backend/cpu/select_bf16.h"

#include <fmt/format.h>

#include <string>

#include "trainer/backend/cpu/select_kernels.h"

namespace trainyard::engine {

std::vector<Bf16Set> RunnableBf16Sets() {
  std::vector<Bf16Set> sets;
  for (const Bf16Instructions& known : KnownBf16Instructions()) {
    if (known.runnable) sets.push_back({known.isa, RunnableKernels().front(), known.kernels});
  }
  for (const KernelTable* table : RunnableKernels()) sets.push_back({table->isa, table, table->bf16});
  return sets;
}

absl::StatusOr<Bf16Set> SelectBf16Set(std::string_view isa) {
  const std::vector<Bf16Set> sets = RunnableBf16Sets();
  if (isa.empty() || isa == "auto") return sets.front();
  std::string known;
  for (const Bf16Set& set : sets) {
    if (set.isa == isa) return set;
    known += fmt::format("{}'{}'", known.empty() ? "" : ", ", set.isa);
  }
  return absl::InvalidArgumentError(
      fmt::format("cpu kernels '{}' for bfloat16 are unknown or not supported by this processor; it runs {} or 'auto'", isa, known));
}

}  // namespace trainyard::engine
