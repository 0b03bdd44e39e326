#include "trainer/serve/serve.h"

#include <gtest/gtest.h>

#include "trainer/serve/address_text.h"
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

TEST(AddressText, AnAddressOfIpV6IsInBrackets) {
  EXPECT_EQ(AddressText("127.0.0.1", 8080), "127.0.0.1:8080");
  EXPECT_EQ(AddressText("::1", 8080), "[::1]:8080");
}

}  // namespace
}  // namespace trainyard::engine
