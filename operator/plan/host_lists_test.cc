// When the host lists are compared again, and when the last look's answer holds.
#include "operator/plan/host_lists.h"

#include <gtest/gtest.h>

#include "operator/children/config_builder.h"
#include "operator/plan/test_world.h"

namespace trainyard::control {
namespace {

ConfigMap Config(const TrainingJob& job, int64_t epoch, const std::string& version = "5") {
  ConfigMap config;
  config.meta.resource_version = version;
  config.content_hash = ConfigMap::ContentHash(BuildConfigData(job, epoch, ""));
  return config;
}

class HostListsTest : public testing::Test {
 protected:
  // Its hash and its ConfigMap are not what they are said to be, so that it shows who believes it.
  const HostListsSeen false_{.job_uid = "job-uid", .generation = 1, .hash = "believed", .config_version = "5", .config_epoch = 3};
  TrainingJob job_ = OneServerTwoWorkers().Build();
  ConfigMap other_ = Config(OneServerTwoWorkers().Replicas("worker", 7).Build(), 3);
};

TEST_F(HostListsTest, AFirstLookComparesAndTellsTheNext) {
  const ConfigMap config = Config(job_, 2);
  HostLists hosts(job_, &config, std::nullopt);
  EXPECT_FALSE(hosts.AreHeld(1));
  EXPECT_EQ(hosts.seen()->config_epoch, 0);
  EXPECT_TRUE(hosts.AreHeld(2));
  EXPECT_EQ(hosts.Hash(), HostsHash(job_));
  const HostListsSeen seen{.job_uid = "job-uid", .generation = 1, .hash = HostsHash(job_), .config_version = "5", .config_epoch = 2};
  EXPECT_EQ(hosts.seen(), seen);
}

TEST_F(HostListsTest, WhatWasSeenIsNotComparedAgain) {
  HostLists hosts(job_, &other_, false_);
  EXPECT_EQ(hosts.Hash(), "believed");
  EXPECT_TRUE(hosts.AreHeld(3));
  EXPECT_EQ(hosts.seen(), false_);
}

TEST_F(HostListsTest, AnotherEpochOrAnotherConfigMapIsCompared) {
  EXPECT_FALSE(HostLists(job_, &other_, false_).AreHeld(4));
  other_.meta.resource_version = "6";
  EXPECT_FALSE(HostLists(job_, &other_, false_).AreHeld(3));
  EXPECT_FALSE(HostLists(job_, nullptr, false_).AreHeld(3));
  other_.meta.resource_version = "";
  HostListsSeen nameless = false_;
  nameless.config_version = "";
  EXPECT_FALSE(HostLists(job_, &other_, nameless).AreHeld(3));
}

TEST_F(HostListsTest, AnotherJobOfTheNameAndAnotherSpecAreCompared) {
  const auto expect_compared = [&](const HostListsSeen& seen) {
    HostLists hosts(job_, &other_, seen);
    EXPECT_EQ(hosts.Hash(), HostsHash(job_));
    EXPECT_FALSE(hosts.AreHeld(3));
  };
  HostListsSeen seen = false_;
  seen.job_uid = "earlier-uid";
  expect_compared(seen);
  seen = false_;
  seen.generation = 2;
  expect_compared(seen);
}

TEST_F(HostListsTest, AJobThatGoesOnAfterARefusedEditIsComparedAtEachLook) {
  job_.refused_edit = {{"spec.worker.replicas", "found 0"}};
  HostLists hosts(job_, &other_, false_);
  EXPECT_EQ(hosts.Hash(), HostsHash(job_));
  EXPECT_FALSE(hosts.AreHeld(3));
  EXPECT_EQ(hosts.seen(), std::nullopt);
}

}  // namespace
}  // namespace trainyard::control
