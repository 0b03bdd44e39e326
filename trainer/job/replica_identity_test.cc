#include "trainer/job/replica_identity.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>

namespace trainyard::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// A config folder and an environment of its own for each test.
class ReplicaIdentityTest : public ::testing::Test {
 protected:
  ReplicaIdentityTest()
      : folder_(std::filesystem::path(::testing::TempDir()) / ::testing::UnitTest::GetInstance()->current_test_info()->name()) {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  ~ReplicaIdentityTest() override { std::filesystem::remove_all(folder_); }

  void Write(const std::string& name, const std::string& text) { std::ofstream(folder_ / name) << text; }
  void UseFolder() { variables_["TRAINYARD_CONFIG_DIR"] = folder_.string(); }
  absl::StatusOr<ReplicaIdentity> Read(const ReplicaFlags& flags = {}) {
    return ReadReplicaIdentity(flags, [this](const char* name) {
      const auto found = variables_.find(name);
      return found == variables_.end() ? nullptr : found->second.c_str();
    });
  }
  ReplicaIdentity Good(const ReplicaFlags& flags = {}) {
    auto identity = Read(flags);
    EXPECT_TRUE(identity.ok()) << identity.status();
    return identity.ok() ? *std::move(identity) : ReplicaIdentity{};
  }
  std::string Bad(const ReplicaFlags& flags = {}) {
    const auto identity = Read(flags);
    EXPECT_FALSE(identity.ok());
    return std::string(identity.status().message());
  }

  const std::filesystem::path folder_;
  std::map<std::string, std::string> variables_;
};

TEST_F(ReplicaIdentityTest, TheNodeIsTheEnvironmentsOrElseTheMachinesName) {
  EXPECT_FALSE(Good({.config = "job.yaml"}).node.empty());
  variables_["TRAINYARD_NODE"] = "node-7";
  EXPECT_EQ(Good({.config = "job.yaml"}).node, "node-7");
}

TEST_F(ReplicaIdentityTest, FlagsSayWhoOneOfFourTerminalsIs) {
  const ReplicaIdentity identity = Good({.job_name = "worker",
                                         .task_index = 1,
                                         .ps_hosts = "localhost:2222",
                                         .worker_hosts = "localhost:2223,localhost:2224",
                                         .config = "job.yaml"});
  EXPECT_EQ(identity.role, Role::kWorker);
  EXPECT_EQ(identity.index, 1);
  EXPECT_THAT(identity.ps_hosts, ElementsAre("localhost:2222"));
  EXPECT_THAT(identity.worker_hosts, ElementsAre("localhost:2223", "localhost:2224"));
  EXPECT_EQ(identity.config_path, "job.yaml");
  EXPECT_EQ(identity.trainer_count(), 2);
  EXPECT_FALSE(identity.is_chief());
}

TEST_F(ReplicaIdentityTest, WithoutFlagsAndEnvironmentItIsOneWorkerAlone) {
  const ReplicaIdentity identity = Good({.config = "job.yaml"});
  EXPECT_EQ(identity.role, Role::kWorker);
  EXPECT_TRUE(identity.is_chief());
  EXPECT_THAT(identity.ps_hosts, IsEmpty());
}

TEST_F(ReplicaIdentityTest, APodReadsEnvironmentAndClusterJson) {
  UseFolder();
  variables_["TRAINYARD_ROLE"] = "worker";
  variables_["TRAINYARD_INDEX"] = "0";
  Write("cluster.json", R"({"epoch": 3, "ps": ["p:1"], "worker": ["w0:1", "w1:1"], "chief": "w0:1"})");
  const ReplicaIdentity identity = Good();
  EXPECT_EQ(identity.epoch, 3);
  EXPECT_THAT(identity.worker_hosts, ElementsAre("w0:1", "w1:1"));
  EXPECT_EQ(identity.chief_host, "");
  EXPECT_TRUE(identity.is_chief());
  EXPECT_EQ(identity.config_path, (folder_ / "training.json").string());
}

TEST_F(ReplicaIdentityTest, AChiefOfItsOwnIsRankZeroOfTheTrainers) {
  UseFolder();
  Write("cluster.json", R"({"epoch": 1, "ps": ["p:1"], "worker": ["w0:1"], "chief": "c:1"})");
  variables_["TRAINYARD_ROLE"] = "chief";
  variables_["TRAINYARD_INDEX"] = "0";
  EXPECT_TRUE(Good().is_chief());
  EXPECT_EQ(Good().trainer_rank(), 0);
  EXPECT_EQ(Good().trainer_count(), 2);
  variables_["TRAINYARD_ROLE"] = "worker";
  EXPECT_FALSE(Good().is_chief());
  EXPECT_EQ(Good().trainer_rank(), 1);
}

TEST_F(ReplicaIdentityTest, HostListsAloneAreEnough) {
  UseFolder();
  variables_["TRAINYARD_ROLE"] = "ps";
  Write("ps_hosts", "a:1,b:2");
  Write("worker_hosts", "");
  const ReplicaIdentity identity = Good();
  EXPECT_THAT(identity.ps_hosts, ElementsAre("a:1", "b:2"));
  EXPECT_THAT(identity.worker_hosts, IsEmpty());
}

TEST_F(ReplicaIdentityTest, AFlagWinsOverTheEnvironment) {
  UseFolder();
  variables_["TRAINYARD_ROLE"] = "ps";
  variables_["TRAINYARD_INDEX"] = "0";
  Write("cluster.json", R"({"epoch": 1, "ps": ["p:1"], "worker": ["w0:1", "w1:1"], "chief": "w0:1"})");
  const ReplicaIdentity identity = Good({.job_name = "worker", .task_index = 1, .config = "other.json"});
  EXPECT_EQ(identity.role, Role::kWorker);
  EXPECT_EQ(identity.index, 1);
  EXPECT_EQ(identity.config_path, "other.json");
}

TEST_F(ReplicaIdentityTest, MistakesAreNamedByTheirFlagOrVariable) {
  EXPECT_THAT(Bad({.job_name = "wroker", .config = "j"}),
              HasSubstr("--job_name: found \"wroker\", expected one of chief, worker, ps, evaluator"));
  EXPECT_THAT(Bad({.ps_hosts = "localhost", .config = "j"}), HasSubstr("--ps_hosts: found \"localhost\", expected host:port"));
  EXPECT_THAT(Bad({.ps_hosts = "a:99999", .config = "j"}), HasSubstr("--ps_hosts: found \"a:99999\", expected host:port"));
  EXPECT_THAT(Bad({.ps_hosts = "a:1,", .config = "j"}), HasSubstr("--ps_hosts: found a comma at the end"));
  EXPECT_THAT(Bad({.task_index = -1, .config = "j"}), HasSubstr("--task_index: found \"-1\", expected a whole number >= 0"));
  EXPECT_THAT(Bad({}), HasSubstr("--config: missing"));
  variables_["TRAINYARD_INDEX"] = "one";
  EXPECT_THAT(Bad({.config = "j"}), HasSubstr("TRAINYARD_INDEX: found \"one\""));
}

TEST_F(ReplicaIdentityTest, AReplicaThatIsInNoListIsRefused) {
  EXPECT_THAT(Bad({.job_name = "worker", .task_index = 2, .worker_hosts = "a:1,b:1", .config = "j"}),
              HasSubstr("--task_index: found worker 2, but worker_hosts has 2 hosts"));
  EXPECT_THAT(Bad({.job_name = "ps", .config = "j"}), HasSubstr("found ps 0, but ps_hosts has 0 hosts"));
}

TEST_F(ReplicaIdentityTest, AConfigFolderThatIsGoneIsNamed) {
  UseFolder();
  variables_["TRAINYARD_CONFIG_DIR"] = "/no/such/config";
  variables_["TRAINYARD_ROLE"] = "worker";
  variables_["TRAINYARD_INDEX"] = "1";
  EXPECT_THAT(Bad({}), HasSubstr("TRAINYARD_CONFIG_DIR: there is no folder '/no/such/config'"));
}

TEST_F(ReplicaIdentityTest, ABrokenClusterJsonIsNamed) {
  UseFolder();
  Write("cluster.json", R"({"ps": "p:1", "worker": [1]})");
  const std::string text = Bad();
  EXPECT_THAT(text, HasSubstr("cluster.json: 2 errors"));
  EXPECT_THAT(text, HasSubstr("ps: found \"p:1\", expected a list of texts"));
  EXPECT_THAT(text, HasSubstr("worker[0]: found 1, expected a text"));
  Write("cluster.json", "{");
  EXPECT_THAT(Bad(), HasSubstr("cluster.json: not JSON"));
}

TEST_F(ReplicaIdentityTest, ReadsTheJobsKeyFromTheConfigFolderOrFromTheFlagsFile) {
  UseFolder();
  Write("cluster.json", R"({"epoch": 1, "ps": ["ps-0:5000"], "worker": ["worker-0:5000"]})");
  EXPECT_FALSE(Good().key.has_value());
  Write("key", std::string(64, 'a') + "\n");
  EXPECT_EQ(Good().key->ToText(), std::string(64, 'a') + "\n");
  Write("other", std::string(64, 'b'));
  EXPECT_EQ(Good({.key = (folder_ / "other").string()}).key->ToText(), std::string(64, 'b') + "\n");
}

TEST_F(ReplicaIdentityTest, AKeyThatIsNotOneOrIsMissingWhereItIsNamedIsAnError) {
  UseFolder();
  Write("key", "abc");
  EXPECT_THAT(Bad(), HasSubstr("key': found 3 characters, expected 64 hexadecimal digits"));
  EXPECT_THAT(Bad({.key = (folder_ / "absent").string()}), HasSubstr("absent"));
}

TEST_F(ReplicaIdentityTest, AJobOfOneMachineListensThereAlone) {
  const auto listens_at = [this](const std::string& ps, const std::string& workers) {
    return Good({.job_name = "worker", .task_index = 0, .ps_hosts = ps, .worker_hosts = workers, .config = "job.yaml"}).listen_host();
  };
  EXPECT_EQ(listens_at("127.0.0.1:5000", "localhost:5010,127.0.0.1:5020"), "127.0.0.1");
  EXPECT_EQ(listens_at("[::1]:5000", "127.0.0.2:5010"), "127.0.0.1");
  EXPECT_EQ(listens_at("127.0.0.1:5000", "127.0.0.1:5010,worker-1:5000"), "0.0.0.0");
  EXPECT_EQ(listens_at("ps-0:5000", "127.0.0.1:5010"), "0.0.0.0");
}

}  // namespace
}  // namespace trainyard::engine
