#include "operator/api/main_container.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace trainyard::control {
namespace {

using nlohmann::json;

json Containers(std::initializer_list<const char*> names) {
  json list = json::array();
  for (const char* name : names) list.push_back({{"name", name}});
  return list;
}

json Noted(const char* name) { return {{"kubectl.kubernetes.io/default-container", name}}; }

TEST(MainContainer, IsTheTrainerWhereverItStands) {
  EXPECT_EQ(MainContainerIndex(Containers({"linkerd-proxy", "trainer"}), json()), 1);
  EXPECT_EQ(MainContainerIndex(Containers({"linkerd-proxy", "trainer"}), Noted("linkerd-proxy")), 1);
  EXPECT_EQ(MainContainerIndex(Containers({"trainer", "side"}), Noted("side")), 0) << "kubectl's default may be another";
}

TEST(MainContainer, IsTheNotedOneWhereNoneIsCalledTrainer) {
  EXPECT_EQ(MainContainerIndex(Containers({"linkerd-proxy", "main"}), Noted("main")), 1);
  EXPECT_EQ(MainContainerIndex(Containers({"main", "side"}), Noted("gone")), 0);
}

TEST(MainContainer, IsTheFirstWhereNothingTells) {
  EXPECT_EQ(MainContainerIndex(Containers({"main", "side"}), json()), 0);
  EXPECT_EQ(MainContainerIndex(json::array(), json()), 0);
  for (const json& odd : {json(), json("none"), json(3), json::array({nullptr, 5, json::array()})}) {
    EXPECT_EQ(MainContainerIndex(odd, odd), 0) << odd;
  }
  EXPECT_EQ(MainContainerIndex(Containers({"", "side"}), Noted("")), 0);
}

}  // namespace
}  // namespace trainyard::control
