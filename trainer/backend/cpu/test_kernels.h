// Helpers that the tests of every instruction set share.
#pragma once

#include <string>
#include <vector>

#include "trainer/backend/cpu/select_kernels.h"

namespace trainyard::engine {

// The instruction sets that this machine can run, fastest first.
inline std::vector<std::string> RunnableNames() {
  std::vector<std::string> names;
  for (const KernelTable* table : RunnableKernels()) names.emplace_back(table->isa);
  return names;
}

}  // namespace trainyard::engine
