// A test that runs once for each instruction set that multiplies bfloat16.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "trainer/backend/cpu/cpu_backend.h"
#include "trainer/backend/cpu/select_bf16.h"
#include "trainer/backend/cpu/select_kernels.h"

namespace trainyard::engine {

// The sets of this processor family, those that the machine lacks too, and what runs everywhere.
inline std::vector<std::string> KnownBf16Sets() {
  std::vector<std::string> names;
  for (const Bf16Instructions& known : KnownBf16Instructions()) names.emplace_back(known.isa);
  for (const KernelTable* table : RunnableKernels()) names.emplace_back(table->isa);
  return names;
}

inline std::unique_ptr<Backend> CpuInBf16(const std::string& isa, int threads = 1) {
  auto backend = MakeCpuBackend({.threads = threads, .isa = isa, .precision = Precision::kBfloat16});
  EXPECT_TRUE(backend.ok()) << backend.status();
  return *std::move(backend);
}

// The root mean square of the difference, as a share of that of `exact`, which is not 0.
template <typename Found, typename Exact>
double ShareOff(const Found& found, const Exact& exact) {
  double off = 0, all = 0;
  for (size_t i = 0; i < exact.size(); ++i) {
    off += std::pow(double{found[i]} - double{exact[i]}, 2);
    all += std::pow(double{exact[i]}, 2);
  }
  EXPECT_GT(all, 0.0);
  return std::sqrt(off / all);
}

// Sets that the machine lacks are skipped.
class Bf16Test : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    for (const Bf16Instructions& known : KnownBf16Instructions()) {
      if (known.isa == GetParam() && !known.runnable) {
        GTEST_SKIP() << "this processor, or its kernel, does not run " << known.isa << ": products of bfloat16 by it are not tested";
      }
    }
  }
};

}  // namespace trainyard::engine
