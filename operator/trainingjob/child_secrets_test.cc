#include "operator/trainingjob/child_secrets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/x509v3.h>

#include <nlohmann/json.hpp>

#include "operator/api/defaults.h"
#include "operator/children/config_builder.h"
#include "operator/children/pod_builder.h"
#include "operator/children/test_makers.h"
#include "operator/kube/pem.h"

namespace trainyard::control {
namespace {

using nlohmann::json;
using ::testing::MatchesRegex;

TrainingJob JobOf(const json& network, bool keys_in_secrets = false) {
  TrainingJob job = MakeJob().Replicas("worker", 1).Set("/spec/network", network).Build();
  ApplyDefaults({.keys_in_secrets = keys_in_secrets}, job);
  return job;
}

json New(const TrainingJob& job, ChildKind kind, const std::string& known_key) {
  return TraitsOf(kind).build(job, {kind, "", "", "", std::nullopt}, DrawSecrets(job, kind, known_key).value());
}

json Data(const TrainingJob& job, const std::string& known_key = "") { return New(job, ChildKind::kConfigMap, known_key)["data"]; }

json Secret(const TrainingJob& job, const std::string& known_key = "") { return New(job, ChildKind::kSecret, known_key); }

TEST(JobKey, LiesInTheConfigMapAndIsAnotherForEveryJob) {
  const TrainingJob job = JobOf(json::object());
  const json first = Data(job);
  EXPECT_THAT(first["key"].get<std::string>(), MatchesRegex("[0-9a-f]+"));
  EXPECT_EQ(first["key"].get<std::string>().size(), 64U);
  EXPECT_NE(first["key"], Data(job)["key"]);
  EXPECT_FALSE(NeedsSecret(job));
}

TEST(JobKey, StaysWhatItWasWhenTheHostListsChange) {
  const TrainingJob job = JobOf(json::object());
  const json object = BuildConfigMap(job, 1, "the key");
  const ConfigMap config = ConfigMap::FromJson(object).value();
  EXPECT_EQ(config.job_key, "the key");
  EXPECT_TRUE(HoldsHosts(config, job, 1));
  EXPECT_FALSE(HoldsHosts(config, job, 2));
  EXPECT_EQ(Data(job, config.job_key)["key"], "the key");
}

TEST(JobKey, OfAnotherFrameworkThereIsNone) {
  const TrainingJob job = MakeJob().Replicas("worker", 1).Set("/spec/framework", "PyTorch").Build();
  EXPECT_FALSE(Data(job).contains("key"));
}

TEST(JobKey, LiesInASecretWhereTheOperatorKeepsKeysThere) {
  const TrainingJob job = JobOf(json::object(), /*keys_in_secrets=*/true);
  EXPECT_TRUE(NeedsSecret(job));
  EXPECT_FALSE(Data(job).contains("key"));
  const json secret = Secret(job);
  EXPECT_EQ(secret["metadata"]["name"], "mnist-key");
  EXPECT_EQ(secret["stringData"].size(), 1U);
  EXPECT_EQ(secret["stringData"]["key"].get<std::string>().size(), 64U);
  EXPECT_EQ(Secret(job, "of the ConfigMap")["stringData"]["key"], "of the ConfigMap");
  EXPECT_EQ(BuildPod(job, {Role::kWorker, 0})["spec"]["volumes"][0],
            json::parse(R"({"name": "trainyard-config", "projected": {"sources": [{"configMap": {"name": "mnist-cluster"}},
                            {"secret": {"name": "mnist-key", "items": [{"key": "key", "path": "key"}]}}]}})"));
}

TEST(JobKey, CertificatesOfATlsJobNameItAndAreSignedByItsOwnAuthority) {
  const TrainingJob job = JobOf({{"tls", true}});
  const json data = Secret(job)["stringData"];
  ASSERT_EQ(data.size(), 4U);
  EXPECT_TRUE(CheckKeyPair(data["tls.crt"].get<std::string>(), data["tls.key"].get<std::string>()).ok());
  const auto authority = ParseCertificates(data["ca.crt"].get<std::string>()).value();
  const auto own = ParseCertificates(data["tls.crt"].get<std::string>()).value();
  EXPECT_EQ(X509_verify(own[0].get(), X509_get0_pubkey(authority[0].get())), 1);
  EXPECT_EQ(X509_check_host(own[0].get(), CertificateName(job).c_str(), 0, 0, nullptr), 1);
  EXPECT_EQ(X509_check_host(own[0].get(), "another-uid.trainyard.dev", 0, 0, nullptr), 0);
  EXPECT_NE(Secret(job)["stringData"]["ca.crt"], data["ca.crt"]);
  EXPECT_EQ(BuildPod(job, {Role::kWorker, 0})["spec"]["volumes"][0]["projected"]["sources"][1]["secret"]["items"][3],
            json({{"key", "tls.key"}, {"path", "tls/tls.key"}}));
}

}  // namespace
}  // namespace trainyard::control
