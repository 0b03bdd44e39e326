// How this machine multiplies bfloat16 operands.
#pragma once

#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "trainer/backend/cpu/kernels.h"

namespace trainyard::engine {

// A set of kernels for bf16 products, and the table that does all else.
struct Bf16Set {
  const char* isa;  // "amx", "avx512bf16", or the table's own name where operands are widened to f32
  const KernelTable* table;
  Bf16Kernels kernels;
};

// The instruction sets with products of bf16 that this build has for this processor family, the
// fastest first, whether the machine at hand can run them or not. They need the first of
// RunnableKernels.
struct Bf16Instructions {
  const char* isa;
  Bf16Kernels kernels;
  bool runnable;
};
std::vector<Bf16Instructions> KnownBf16Instructions();

// The sets that this machine can run, the fastest first; never empty.
std::vector<Bf16Set> RunnableBf16Sets();

// The set called `isa`; the fastest one for "" or "auto". InvalidArgument lists what this machine
// can run.
absl::StatusOr<Bf16Set> SelectBf16Set(std::string_view isa = "");

}  // namespace trainyard::engine
