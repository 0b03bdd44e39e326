// arm64: SVE where its registers have 256 bits (Neoverse V1), else NEON, which is always there and
// as wide as SVE's registers of 128 bits.
#include <sys/prctl.h>

#include <array>

#include "trainer/backend/cpu/float28_weights.h"
#include "trainer/backend/cpu/select_kernels.h"

namespace trainyard::engine {

namespace neon {
extern const KernelTable kTable;
}
namespace sve256 {
extern const KernelTable kTable;
}

namespace {

// From `first` on, the machine can run all of these.
constexpr std::array<const KernelTable*, 2> kFastestFirst = {&sve256::kTable, &neon::kTable};

// The kernels' code is for registers of exactly this width. The thread's width is the process's:
// nothing here changes it. A kernel or processor without SVE answers with an error, which is
// negative.
bool HasSve256() {
  const int length = prctl(PR_SVE_GET_VL);
  return length >= 0 && (length & PR_SVE_VL_LEN_MASK) == 256 / 8;
}

}  // namespace

std::span<const KernelTable* const> RunnableKernels() { return std::span(kFastestFirst).subspan(HasSve256() ? 0 : 1); }

Float28Product RunnableFloat28Product() { return nullptr; }

}  // namespace trainyard::engine
