// arm64: NEON is always there.
#include <array>

#include "trainer/backend/cpu/select_kernels.h"

namespace trainyard::engine {

namespace neon {
extern const KernelTable kTable;
}

namespace {
constexpr std::array<const KernelTable*, 1> kTables = {&neon::kTable};
}

std::span<const KernelTable* const> RunnableKernels() { return kTables; }

}  // namespace trainyard::engine
