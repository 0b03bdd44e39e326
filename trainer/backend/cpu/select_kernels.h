// The compiled kernels that this machine can run.
#pragma once

#include <span>
#include <string_view>

#include "absl/status/statusor.h"
#include "trainer/backend/cpu/kernels.h"

namespace trainyard::engine {

// The tables that this machine can run, the fastest first; never empty. They live as long as the
// process.
std::span<const KernelTable* const> RunnableKernels();

// The table called `isa`; the fastest one for "" or "auto". InvalidArgument lists what this machine
// can run.
absl::StatusOr<const KernelTable*> SelectKernels(std::string_view isa = "");

}  // namespace trainyard::engine
