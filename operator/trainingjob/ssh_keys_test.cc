#include "operator/trainingjob/ssh_keys.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "operator/children/test_makers.h"

namespace trainyard::control {
namespace {

using nlohmann::json;
using ::testing::StartsWith;

TEST(SshKeys, ArePemAndOneAuthorizedKeysLineAndNewEachTime) {
  const auto keys = MakeSshKeys();
  ASSERT_TRUE(keys.ok()) << keys.status();
  EXPECT_THAT(keys->private_key, StartsWith("-----BEGIN EC PRIVATE KEY-----\n"));
  // The base64 of the two strings before the point is the same for every key of this curve.
  EXPECT_THAT(keys->public_key, StartsWith("ecdsa-sha2-nistp521 AAAAE2VjZHNhLXNoYTItbmlzdHA1MjEAAAAIbmlzdHA1MjEAAACF"));
  EXPECT_NE(keys->private_key, MakeSshKeys()->private_key);
  const json secret = BuildSshSecret(MakeJob().Framework("MPI").Replicas("worker", 1).Build(), *keys);
  EXPECT_EQ(secret["type"], "kubernetes.io/ssh-auth");
  EXPECT_EQ(secret["metadata"]["name"], "mnist-ssh");
}

}  // namespace
}  // namespace trainyard::control
