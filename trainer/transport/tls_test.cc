#include "trainer/transport/tls.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <memory>

#include "trainer/transport/test_inbox.h"

namespace trainyard::engine {
namespace {

using ::testing::IsEmpty;
using ::testing::Not;

std::string Text(BIO* bio) {
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio, &data);
  std::string text(data, static_cast<size_t>(size));
  BIO_free(bio);
  return text;
}

// A self-signed certificate is its own authority, as good as a job's for what is tested here.
TlsFiles FilesOf(const std::string& name) {
  const std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)> key(EVP_EC_gen("P-256"), EVP_PKEY_free);
  const std::unique_ptr<X509, decltype(&X509_free)> certificate(X509_new(), X509_free);
  X509_set_version(certificate.get(), 2);
  ASN1_INTEGER_set(X509_get_serialNumber(certificate.get()), 1);
  X509_gmtime_adj(X509_getm_notBefore(certificate.get()), -60);
  X509_gmtime_adj(X509_getm_notAfter(certificate.get()), 3600);
  X509_set_pubkey(certificate.get(), key.get());
  X509_NAME* const subject = X509_get_subject_name(certificate.get());
  X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_UTF8, reinterpret_cast<const unsigned char*>(name.c_str()), -1, -1, 0);
  X509_set_issuer_name(certificate.get(), subject);
  X509_EXTENSION* const names = X509V3_EXT_conf_nid(nullptr, nullptr, NID_subject_alt_name, ("DNS:" + name).c_str());
  X509_add_ext(certificate.get(), names, -1);
  X509_EXTENSION_free(names);
  X509_sign(certificate.get(), key.get(), EVP_sha256());
  BIO* const certificate_text = BIO_new(BIO_s_mem());
  PEM_write_bio_X509(certificate_text, certificate.get());
  BIO* const key_text = BIO_new(BIO_s_mem());
  PEM_write_bio_PrivateKey(key_text, key.get(), nullptr, nullptr, 0, nullptr, nullptr);
  const std::string pem = Text(certificate_text);
  return {.authority = pem, .certificate = pem, .key = Text(key_text), .name = name};
}

class GrpcTlsTest : public ::testing::Test {
 protected:
  void Listen() { listener_ = server_->Listen("127.0.0.1:0", served_).value(); }
  // One record from a replica with these options.
  std::shared_ptr<Inbox> SendFrom(GrpcTransportOptions options) {
    dialler_ = MakeGrpcTransport(std::move(options));
    auto inbox = std::make_shared<Inbox>();
    dialler_->Dial(listener_->address(), inbox, absl::Seconds(5))->Send({Record{.header = {.op = WireOp::kHeartbeat}, .payload = {}}});
    return inbox;
  }

  const TlsFiles files_ = FilesOf("a-uid.trainyard.dev");
  const std::shared_ptr<Inbox> served_ = std::make_shared<Inbox>();
  const std::unique_ptr<Transport> server_ = MakeGrpcTransport(WithTls(files_, {}));
  std::unique_ptr<Listener> listener_;
  std::unique_ptr<Transport> dialler_;
};

TEST_F(GrpcTlsTest, ReplicasOfOneJobTalkWhateverTheAddress) {
  Listen();
  SendFrom(WithTls(files_, {}));
  EXPECT_THAT(served_->AwaitSteps(1), Not(IsEmpty()));
}

TEST_F(GrpcTlsTest, AReplicaOfAnotherJobIsTurnedAway) {
  Listen();
  EXPECT_TRUE(absl::IsUnavailable(SendFrom(WithTls(FilesOf("a-uid.trainyard.dev"), {}))->AwaitClosed()));
  EXPECT_THAT(served_->steps(), IsEmpty());
}

TEST_F(GrpcTlsTest, APeerWithoutTlsIsTurnedAway) {
  Listen();
  const absl::Status status = SendFrom({})->AwaitClosed();
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr("no certificate: does this job need TLS?"));
  EXPECT_THAT(served_->steps(), IsEmpty());
}

TEST_F(GrpcTlsTest, APeerThatShowsNoCertificateIsTurnedAway) {
  Listen();
  TlsFiles anonymous = files_;
  anonymous.certificate.clear();
  anonymous.key.clear();
  EXPECT_TRUE(absl::IsUnavailable(SendFrom(WithTls(anonymous, {}))->AwaitClosed()));
  EXPECT_THAT(served_->steps(), IsEmpty());
}

TEST_F(GrpcTlsTest, AnotherNameInTheCertificateIsTurnedAway) {
  Listen();
  TlsFiles other = files_;
  other.name = "another-uid.trainyard.dev";
  EXPECT_TRUE(absl::IsUnavailable(SendFrom(WithTls(other, {}))->AwaitClosed()));
  EXPECT_THAT(served_->steps(), IsEmpty());
}

}  // namespace
}  // namespace trainyard::engine
