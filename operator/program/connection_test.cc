#include "operator/program/connection.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

namespace trainyard::control {
namespace {

using ::testing::HasSubstr;

class FindClusterTest : public testing::Test {
 protected:
  // A machine without a kubeconfig, outside a cluster.
  FindClusterTest() {
    unsetenv("KUBERNETES_SERVICE_HOST");
    unsetenv("KUBECONFIG");
    setenv("HOME", testing::TempDir().c_str(), 1);
  }
};

TEST_F(FindClusterTest, WithoutAnyClusterTheErrorNamesTheFileAndTheFlag) {
  const auto found = FindCluster({});
  EXPECT_THAT(std::string(found.status().message()), HasSubstr("/.kube/config: no such file; name a kubeconfig with --kubeconfig"));
}

TEST_F(FindClusterTest, AKubeconfigThatIsNamedButMissingIsToldByItsName) {
  const auto found = FindCluster({.kubeconfig = "/nowhere/config"});
  EXPECT_EQ(found.status().message(), "/nowhere/config: no such file");
}

TEST_F(FindClusterTest, APodWithoutItsServiceAccountIsNotTakenForAPersonsMachine) {
  setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1", 1);
  setenv("KUBERNETES_SERVICE_PORT", "x", 1);
  const auto found = FindCluster({});
  EXPECT_THAT(std::string(found.status().message()), HasSubstr("KUBERNETES_SERVICE_PORT: \"x\" is not a port"));
  unsetenv("KUBERNETES_SERVICE_HOST");
}

}  // namespace
}  // namespace trainyard::control
