// Any other processor: the compiler's vectors by default.
#include <array>

#include "trainer/backend/cpu/float28_weights.h"
#include "trainer/backend/cpu/select_kernels.h"

namespace trainyard::engine {

namespace baseline {
extern const KernelTable kTable;
}

namespace {
constexpr std::array<const KernelTable*, 1> kTables = {&baseline::kTable};
}

std::span<const KernelTable* const> RunnableKernels() { return kTables; }

Float28Product RunnableFloat28Product() { return nullptr; }

}  // namespace trainyard::engine
