// Helpers that the tests of gradient rules share.
#pragma once

#include <gtest/gtest.h>

#include "trainer/backend/reference/trial.h"

namespace trainyard::engine {

// The gradients of a trial's loss, by its parameters and by the inputs named, equal numeric
// differences in f64.
inline void ExpectRightGradients(const Trial& trial, const GradientCheckOptions& options = {.inputs = {"x"}}) {
  const auto error = trial.CheckGradients(options);
  ASSERT_TRUE(error.ok()) << error.status();
  EXPECT_LT(error->difference, 1e-5) << error->where;
}

}  // namespace trainyard::engine
