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

size_t IndexIn(const json& containers, const json& annotations) {
  return MainContainerIndex({{"metadata", {{"annotations", annotations}}}, {"spec", {{"containers", containers}}}});
}

TEST(MainContainer, IsTheTrainerWhereverItStands) {
  EXPECT_EQ(IndexIn(Containers({"linkerd-proxy", "trainer"}), json()), 1);
  EXPECT_EQ(IndexIn(Containers({"linkerd-proxy", "trainer"}), Noted("linkerd-proxy")), 1);
  EXPECT_EQ(IndexIn(Containers({"trainer", "side"}), Noted("side")), 0) << "kubectl's default may be another";
}

TEST(MainContainer, IsTheNotedOneWhereNoneIsCalledTrainer) {
  EXPECT_EQ(IndexIn(Containers({"linkerd-proxy", "main"}), Noted("main")), 1);
  EXPECT_EQ(IndexIn(Containers({"main", "side"}), Noted("gone")), 0);
}

TEST(MainContainer, IsTheFirstWhereNothingTells) {
  EXPECT_EQ(IndexIn(Containers({"main", "side"}), json()), 0);
  EXPECT_EQ(IndexIn(json::array(), json()), 0);
  for (const json& odd : {json(), json("none"), json(3), json::array({nullptr, 5, json::array()})}) {
    EXPECT_EQ(IndexIn(odd, odd), 0) << odd;
  }
  EXPECT_EQ(IndexIn(Containers({"", "side"}), Noted("")), 0);
}

}  // namespace
}  // namespace trainyard::control
