// Helpers that the tests of every instruction set share.
#pragma once

#include <cstdlib>
#include <string>
#include <vector>

#include "tests/support/sanitized.h"
#include "trainer/backend/cpu/select_bf16.h"
#include "trainer/backend/cpu/select_kernels.h"

namespace trainyard::engine {

// The instruction sets that this machine can run, fastest first. One for ThreadSanitizer: threads
// share the kernels of each as those of the others.
inline std::vector<std::string> RunnableNames() {
  std::vector<std::string> names;
  for (const KernelTable* table : RunnableKernels()) {
    names.emplace_back(table->isa);
    if (kThreadSanitized) break;
  }
  return names;
}

// Those for bfloat16, likewise.
inline std::vector<std::string> RunnableBf16Names() {
  std::vector<std::string> names;
  for (const Bf16Set& set : RunnableBf16Sets()) {
    names.emplace_back(set.isa);
    if (kThreadSanitized) break;
  }
  return names;
}

// Whether an emulator makes a case a hundred times as long (scripts/test.sh sets the variable), or
// shapes matter less than threads.
inline bool IsSlow() { return kThreadSanitized || std::getenv("TRAINYARD_EMULATED") != nullptr; }

// Every fifth case there, all cases elsewhere.
template <typename Case>
std::vector<Case> FewIfSlow(const std::vector<Case>& cases) {
  if (!IsSlow()) return cases;
  std::vector<Case> few;
  for (size_t i = 0; i < cases.size(); i += 5) few.push_back(cases[i]);
  return few;
}

}  // namespace trainyard::engine
