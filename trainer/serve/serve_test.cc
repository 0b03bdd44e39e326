#include "trainer/serve/serve.h"

#include <gtest/gtest.h>

#include "trainer/serve/test_model.h"

namespace trainyard::engine {
namespace {

TEST(Serve, ABackendThatThereIsNotEndsItAlsoWithoutACheckpoint) {
  StopRequest stop;
  ServeOptions options;
  options.checkpoint.path = EmptyFolder();
  const absl::Status served = Serve(options, [] { return absl::FailedPreconditionError("no GPU"); }, stop);
  EXPECT_EQ(served, absl::FailedPreconditionError("no GPU"));
}

}  // namespace
}  // namespace trainyard::engine
