#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "absl/strings/escaping.h"
#include "operator/kube/certificates.h"
#include "operator/kube/config.h"

namespace trainyard::control {
namespace {

std::string Base64(const std::string& text) { return absl::Base64Escape(text); }

class KubeconfigTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::path(testing::TempDir()) /
              (std::string("kubeconfig-") + testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string Write(const std::string& name, const std::string& text) {
    std::ofstream(folder_ / name) << text;
    return folder_ / name;
  }

  // A config whose one cluster and one user have the given lines.
  absl::StatusOr<KubeConfig> Load(const std::string& cluster_lines, const std::string& user_lines) {
    std::string text =
        "apiVersion: v1\nkind: Config\ncurrent-context: main\ncontexts: [{name: main, context: {cluster: c, user: admin, namespace: "
        "team}}]\n";
    text += "clusters:\n- name: c\n  cluster:\n" + Indent(cluster_lines) + "users:\n- name: admin\n  user:\n" + Indent(user_lines);
    return LoadKubeconfig(Write("config", text));
  }

  static std::string Indent(const std::string& lines) {
    std::string out = "    ";
    for (const char c : lines) out += c == '\n' ? std::string("\n    ") : std::string(1, c);
    return out + "\n";
  }

  std::filesystem::path folder_;
  CertifiedKey authority_ = MakeAuthority("authority");
  CertifiedKey client_ = IssueCertificate(authority_, "admin", {});
};

TEST_F(KubeconfigTest, ReadsDataAndFilesRelativeToItself) {
  Write("key.pem", client_.key_pem);
  const auto config = Load("server: https://10.0.0.1:6443/\ncertificate-authority-data: " + Base64(authority_.certificate_pem),
                           "client-certificate-data: " + Base64(client_.certificate_pem) + "\nclient-key: key.pem");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->server, "https://10.0.0.1:6443");
  EXPECT_EQ(config->ca_pem, authority_.certificate_pem);
  EXPECT_EQ(config->client_certificate_pem, client_.certificate_pem);
  EXPECT_EQ(config->client_key_pem + "\n", client_.key_pem);
  EXPECT_EQ(config->ns, "team");
  EXPECT_FALSE(config->insecure_skip_tls_verify);
}

TEST_F(KubeconfigTest, ReadsTokenAndTokenFile) {
  EXPECT_EQ(Load("server: https://a", "token: secret")->token, "secret");
  Write("token", "rotated");
  EXPECT_EQ(Load("server: https://a", "tokenFile: token")->token_file, folder_ / "token");
}

TEST_F(KubeconfigTest, TakesTheContextThatIsAskedFor) {
  const std::string path = Write("two",
                                 "current-context: one\n"
                                 "contexts: [{name: one, context: {cluster: c1, user: u}}, {name: two, context: {cluster: c2, user: u}}]\n"
                                 "clusters: [{name: c1, cluster: {server: 'https://one'}}, {name: c2, cluster: {server: 'https://two', "
                                 "insecure-skip-tls-verify: true}}]\n"
                                 "users: [{name: u, user: {}}]\n");
  EXPECT_EQ(LoadKubeconfig(path)->server, "https://one");
  EXPECT_EQ(LoadKubeconfig(path, "two")->server, "https://two");
  EXPECT_TRUE(LoadKubeconfig(path, "two")->insecure_skip_tls_verify);
  const absl::Status missing = LoadKubeconfig(path, "three").status();
  EXPECT_NE(missing.ToString().find("two: contexts[three]"), std::string::npos) << missing;
}

TEST_F(KubeconfigTest, EveryErrorNamesFileAndField) {
  const std::string ca = "\ncertificate-authority-data: " + Base64(authority_.certificate_pem);
  const std::string certificate = "client-certificate-data: " + Base64(client_.certificate_pem);
  const CertifiedKey other = IssueCertificate(authority_, "other", {});
  const struct {
    std::string cluster, user, names;
  } cases[] = {
      {"server: ''", "token: x", "clusters[c].server: missing"},
      {"server: [1]", "token: x", "clusters[c].server: expected text"},
      {"server: https://a\ncertificate-authority-data: '***'", "token: x", "clusters[c].certificate-authority-data: is not valid base64"},
      {"server: https://a\ncertificate-authority-data: " + Base64("no pem"), "token: x",
       "clusters[c].certificate-authority-data: holds no certificate"},
      {"server: https://a\ncertificate-authority: absent.pem", "token: x", "clusters[c].certificate-authority: "},
      {"server: https://a\ninsecure-skip-tls-verify: perhaps", "token: x", "clusters[c].insecure-skip-tls-verify: expected true or false"},
      {"server: https://a\ninsecure-skip-tls-verify: true" + ca, "token: x", "clusters[c].insecure-skip-tls-verify: cannot be true"},
      {"server: https://a\nproxy-url: http://p", "token: x", "clusters[c].proxy-url"},
      {"server: https://a", certificate, "users[admin].client-key: missing"},
      {"server: https://a", "client-key-data: " + Base64(client_.key_pem), "users[admin].client-certificate: missing"},
      {"server: https://a", certificate + "\nclient-key-data: " + Base64("junk"),
       "users[admin].client-key-data: holds no readable private key"},
      {"server: https://a", certificate + "\nclient-key-data: " + Base64(other.key_pem),
       "users[admin].client-key-data: holds a key that does not belong"},
      {"server: https://a", "tokenFile: absent", "users[admin].tokenFile: "},
      {"server: https://a", "exec: {command: aws}", "users[admin].exec: is not supported"},
  };
  for (const auto& c : cases) {
    const auto config = Load(c.cluster, c.user);
    ASSERT_FALSE(config.ok()) << c.names;
    EXPECT_NE(config.status().ToString().find((folder_ / "config").string() + ": " + c.names), std::string::npos) << config.status();
  }
}

TEST_F(KubeconfigTest, BrokenFilesAreErrorsThatNameThem) {
  for (const char* text :
       {"", "just text", "a: [", "- 1", "current-context: x", "contexts: {}", "current-context: x\ncontexts: [1, {name: [2]}]",
        "current-context: x\ncontexts: [{name: x, context: 5}]",
        "current-context: x\ncontexts: [{name: x, context: {cluster: c}}]\nclusters: [{name: c}]", "current-context: [x]"}) {
    const std::string path = Write("broken", text);
    const absl::Status status = LoadKubeconfig(path).status();
    ASSERT_FALSE(status.ok()) << text;
    EXPECT_NE(status.ToString().find(path), std::string::npos) << text << ": " << status;
  }
  EXPECT_TRUE(absl::IsNotFound(LoadKubeconfig(folder_ / "absent").status()));
  EXPECT_TRUE(absl::IsInvalidArgument(LoadKubeconfig(folder_).status()));
}

TEST_F(KubeconfigTest, InClusterReadsTheServiceAccountsFolder) {
  Write("token", "t");
  Write("ca.crt", authority_.certificate_pem);
  Write("namespace", "trainyard");
  const auto config = InClusterConfig("10.96.0.1", "443", folder_);
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->server, "https://10.96.0.1:443");
  EXPECT_EQ(config->token_file, folder_ / "token");
  EXPECT_EQ(config->ns, "trainyard");
  EXPECT_EQ(InClusterConfig("fd00::1", "443", folder_)->server, "https://[fd00::1]:443");
  EXPECT_NE(InClusterConfig("", "443", folder_).status().ToString().find("KUBERNETES_SERVICE_HOST"), std::string::npos);
  EXPECT_NE(InClusterConfig("h", "x", folder_).status().ToString().find("KUBERNETES_SERVICE_PORT"), std::string::npos);
  Write("ca.crt", "broken");
  EXPECT_NE(InClusterConfig("h", "1", folder_).status().ToString().find("ca.crt"), std::string::npos);
  std::filesystem::remove(folder_ / "token");
  EXPECT_NE(InClusterConfig("h", "1", folder_).status().ToString().find("token: no such file"), std::string::npos);
}

}  // namespace
}  // namespace trainyard::control
