#include "operator/program/host_and_port.h"

#include <gtest/gtest.h>

namespace trainyard::control {
namespace {

TEST(HostAndPort, BothAreThere) {
  EXPECT_EQ(ParseHostAndPort("127.0.0.1:8081")->port, 8081);
  EXPECT_EQ(ParseHostAndPort("[::1]:0")->host, "::1");
  for (const char* wrong : {"", "8081", ":8081", "a:", "a:70000", "a:1x", "::1:8081"}) EXPECT_FALSE(ParseHostAndPort(wrong)) << wrong;
}

}  // namespace
}  // namespace trainyard::control
