#include "operator/trainingjob/job_key.h"

#include <openssl/rand.h>

#include <array>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/time/time.h"
#include "operator/base/check.h"
#include "operator/kube/certificates.h"

namespace trainyard::control {
namespace {

constexpr absl::Duration kValidity = absl::Hours(24 * 365 * 10);  // longer than any job: nothing renews it

}  // namespace

std::string MakeJobKey() {
  std::array<char, 32> bytes;
  TY_CHECK(RAND_bytes(reinterpret_cast<unsigned char*>(bytes.data()), bytes.size()) == 1);
  return absl::BytesToHexString(absl::string_view(bytes.data(), bytes.size()));
}

JobKey CertifyJobKey(const TrainingJob& job, std::string key) {
  JobKey made{.key = std::move(key)};
  if (!job.spec.network.tls) return made;
  const CertifiedKey authority = MakeAuthority("trainyard job " + job.meta.uid, kValidity);
  const CertifiedKey own = IssueCertificate(authority, "trainyard", {"DNS:" + CertificateName(job)}, kValidity);
  made.authority_pem = authority.certificate_pem;
  made.certificate_pem = own.certificate_pem;
  made.private_key_pem = own.key_pem;
  return made;
}

}  // namespace trainyard::control
