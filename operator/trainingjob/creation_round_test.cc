#include "operator/trainingjob/creation_round.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "operator/kube/errors.h"

namespace trainyard::control {
namespace {

using ::testing::ElementsAre;

std::vector<ChildRef> Children(ChildKind kind, int count) {
  std::vector<ChildRef> children;
  for (int i = 0; i < count; ++i) children.push_back({kind, std::to_string(i), "", "", std::nullopt});
  return children;
}

absl::Status Full() { return StatusFromAnswer("create pods", 403, R"({"message":"exceeded quota"})", ""); }

class CreationRoundTest : public testing::Test {
 protected:
  // Creates `room` of the children of `kind` and all of other kinds.
  std::function<absl::Status(const ChildRef&)> RoomFor(ChildKind kind, int room) {
    return [this, kind, left = std::make_shared<int>(room)](const ChildRef& child) {
      asked_.push_back(child.kind);
      return child.kind != kind || (*left)-- > 0 ? absl::OkStatus() : Full();
    };
  }

  FanOut fan_out_{0};
  std::vector<ChildKind> asked_;
};

TEST_F(CreationRoundTest, FourThousandReplicasInAFullNamespaceCostEightRequestsAndThenOneEach) {
  CreationRound fresh(fan_out_, /*careful=*/false);
  fresh.Run(Children(ChildKind::kPod, 4096), RoomFor(ChildKind::kPod, 0));
  EXPECT_EQ(asked_.size(), 8U);
  EXPECT_EQ(fresh.refusal()->count, 4096);
  EXPECT_EQ(fresh.refusal()->words, "exceeded quota");
  asked_.clear();
  CreationRound careful(fan_out_, /*careful=*/true);
  careful.Run(Children(ChildKind::kPod, 4096), RoomFor(ChildKind::kPod, 0));
  EXPECT_EQ(asked_.size(), 1U);
  EXPECT_TRUE(careful.error().ok());
}

TEST_F(CreationRoundTest, GroupsDoubleAsLongAsAllGoesWell) {
  CreationRound round(fan_out_, /*careful=*/true);
  round.Run(Children(ChildKind::kPod, 100), RoomFor(ChildKind::kPod, 40));
  EXPECT_EQ(asked_.size(), 63U) << "1 + 2 + 4 + 8 + 16 + 32";
  EXPECT_EQ(round.refusal()->count, 60);
}

TEST_F(CreationRoundTest, WhatIsNotRefusedIsMadeAfterAllTheSame) {
  std::vector<ChildRef> children = Children(ChildKind::kPod, 3);
  for (ChildRef& service : Children(ChildKind::kService, 2)) children.push_back(service);
  CreationRound round(fan_out_, /*careful=*/true);
  round.Run(children, RoomFor(ChildKind::kPod, 1));
  EXPECT_THAT(asked_, ElementsAre(ChildKind::kPod, ChildKind::kPod, ChildKind::kPod, ChildKind::kService, ChildKind::kService));
  EXPECT_EQ(round.refusal()->count, 2);
}

TEST_F(CreationRoundTest, WorkersAreAskedForAfterTheAnswersForServers) {
  std::vector<ChildRef> children;
  for (const ReplicaId& id : {ReplicaId{Role::kPs, 0}, ReplicaId{Role::kPs, 1}, ReplicaId{Role::kWorker, 0}}) {
    children.push_back({ChildKind::kPod, Name(id), "", "", id});
  }
  CreationRound round(fan_out_, /*careful=*/false);
  std::vector<std::string> asked;
  round.Run(children, [&](const ChildRef& child) {
    asked.push_back(child.name);
    return child.name == "ps-1" ? Full() : absl::OkStatus();
  });
  EXPECT_THAT(asked, ElementsAre("ps-0", "ps-1")) << "a worker does not take the room of a server";
}

TEST_F(CreationRoundTest, NoPodIsMadeWithoutWhatItMounts) {
  std::vector<ChildRef> children = Children(ChildKind::kSecret, 1);
  for (ChildRef& pod : Children(ChildKind::kPod, 20)) children.push_back(pod);
  CreationRound round(fan_out_, /*careful=*/true);
  round.Run(children, RoomFor(ChildKind::kSecret, 0));
  EXPECT_THAT(asked_, ElementsAre(ChildKind::kSecret));
  EXPECT_EQ(round.refusal()->child.kind, ChildKind::kSecret);
}

TEST_F(CreationRoundTest, AnErrorOfTheMomentEndsTheRound) {
  CreationRound round(fan_out_, /*careful=*/false);
  round.Run(Children(ChildKind::kPod, 4096), [this](const ChildRef& child) {
    asked_.push_back(child.kind);
    return absl::UnavailableError("no connection");
  });
  EXPECT_EQ(asked_.size(), 8U);
  EXPECT_TRUE(absl::IsUnavailable(round.error()));
  EXPECT_FALSE(round.refusal());
}

TEST(Refusal, OnlyAnswersAboutTheObjectAreRefusals) {
  for (const int code : {400, 403, 404, 413, 422}) EXPECT_TRUE(IsRefusal(StatusFromAnswer("create", code, "{}", ""))) << code;
  for (const int code : {401, 409, 429, 500, 503}) EXPECT_FALSE(IsRefusal(StatusFromAnswer("create", code, "{}", ""))) << code;
  EXPECT_TRUE(IsRefusal(StatusFromAnswer("create", 500, R"({"message":"failed calling webhook \"x\""})", "")));
  EXPECT_FALSE(IsRefusal(absl::UnavailableError("no connection to the webhook")));
  EXPECT_FALSE(IsRefusal(absl::OkStatus()));
}

}  // namespace
}  // namespace trainyard::control
