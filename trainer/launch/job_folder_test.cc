#include "trainer/launch/job_folder.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "trainer/transport/job_key.h"

namespace trainyard::engine {
namespace {

std::string Read(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

class JobFolderTest : public ::testing::Test {
 protected:
  JobFolderTest() : folder_(::testing::TempDir() + "/job-folder-" + ::testing::UnitTest::GetInstance()->current_test_info()->name()) {
    std::filesystem::remove_all(folder_.dir());
  }

  absl::Status Prepare(const std::vector<ReplicaId>& replicas) {
    std::vector<ReplicaPorts> ports;
    for (size_t i = 0; i < replicas.size(); ++i) ports.push_back({.port = static_cast<uint16_t>(5000 + i), .http_port = 9});
    JobConfig job;
    job.training_json = R"({"seed": 1})";
    return folder_.Prepare(job, 2, replicas, ports);
  }
  nlohmann::json Cluster() const { return nlohmann::json::parse(Read(folder_.dir() + "/config/cluster.json")); }

  JobFolder folder_;
};

TEST_F(JobFolderTest, HoldsWhatTheConfigMapOfAJobHolds) {
  ASSERT_TRUE(Prepare({{Role::kPs, 0}, {Role::kPs, 1}, {Role::kWorker, 0}}).ok());
  EXPECT_EQ(Read(folder_.dir() + "/config/ps_hosts"), "127.0.0.1:5000,127.0.0.1:5001");
  EXPECT_EQ(Read(folder_.dir() + "/config/worker_hosts"), "127.0.0.1:5002");
  EXPECT_EQ(nlohmann::json::parse(Read(folder_.dir() + "/config/training.json")),
            nlohmann::json({{"seed", 1}, {"resources", {{"threads", 2}}}}));
  EXPECT_EQ(Cluster()["epoch"], 1);
}

TEST_F(JobFolderTest, WorkerZeroIsTheChiefUnlessThereIsOne) {
  ASSERT_TRUE(Prepare({{Role::kWorker, 0}, {Role::kWorker, 1}}).ok());
  EXPECT_EQ(Cluster()["chief"], "127.0.0.1:5000");
  ASSERT_TRUE(Prepare({{Role::kChief, 0}, {Role::kWorker, 0}}).ok());
  EXPECT_EQ(Cluster()["chief"], "127.0.0.1:5000");
  EXPECT_EQ(Cluster()["worker"], nlohmann::json({"127.0.0.1:5001"}));
}

TEST_F(JobFolderTest, MakesTheFoldersThatTheJobNamesAndNoOthersInTheirPlace) {
  JobConfig job;
  job.training_json = "{}";
  job.training.checkpoint.dir = "kept";
  ASSERT_TRUE(folder_.Prepare(job, 1, {}, {}).ok());
  EXPECT_TRUE(std::filesystem::is_directory(folder_.dir() + "/kept"));
  EXPECT_FALSE(std::filesystem::exists(folder_.dir() + "/checkpoints"));
  EXPECT_TRUE(std::filesystem::is_directory(folder_.dir() + "/summaries"));
}

TEST_F(JobFolderTest, AFolderThatCannotBeMadeIsNamed) {
  const JobFolder bad("/dev/null/run");
  const absl::Status status = bad.Prepare(JobConfig{}, 1, {}, {});
  EXPECT_NE(status.message().find("/dev/null/run"), absl::string_view::npos) << status;
}

TEST_F(JobFolderTest, AFileThatCannotBeWrittenIsNamedWithTheReason) {
  const std::string file = folder_.dir() + "/config/training.json";
  std::filesystem::create_directories(file);
  EXPECT_NE(Prepare({}).message().find(file + ": Is a directory"), absl::string_view::npos) << Prepare({});
}

TEST(TrainingJsonFor, TrainersShareTheProcessorsUnlessTheJobSaysHowMany) {
  JobConfig job;
  job.training_json = R"({"seed": 1})";
  job.worker.replicas = 3;
  EXPECT_EQ(nlohmann::json::parse(TrainingJsonFor(job, 8))["resources"]["threads"], 2);
  EXPECT_EQ(nlohmann::json::parse(TrainingJsonFor(job, 1))["resources"]["threads"], 1);
  job.training.threads = 5;
  EXPECT_EQ(nlohmann::json::parse(TrainingJsonFor(job, 8)), nlohmann::json({{"seed", 1}}));
}

TEST_F(JobFolderTest, HoldsAKeyThatIsNewEveryTimeAndForTheOwnerAlone) {
  const std::string path = folder_.dir() + "/config/key";
  ASSERT_TRUE(Prepare({{Role::kWorker, 0}}).ok());
  const std::string first = Read(path);
  EXPECT_TRUE(JobKey::Parse(first, path).ok());
  EXPECT_EQ(std::filesystem::status(path).permissions(), std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  ASSERT_TRUE(Prepare({{Role::kWorker, 0}}).ok());
  EXPECT_NE(Read(path), first);
}

}  // namespace
}  // namespace trainyard::engine
