// A processor family for which no instructions with bf16 operands are used.
#include "trainer/backend/cpu/select_bf16.h"

namespace trainyard::engine {

std::vector<Bf16Instructions> KnownBf16Instructions() { return {}; }

}  // namespace trainyard::engine
