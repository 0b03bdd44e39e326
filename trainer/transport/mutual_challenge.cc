#include "trainer/transport/mutual_challenge.h"

#include <fmt/format.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

#include <algorithm>
#include <cstring>
#include <string_view>
#include <vector>

#include "trainer/base/check.h"

namespace trainyard::engine {
namespace {

constexpr std::string_view kListenerLabel = "trainyard listener";
constexpr std::string_view kDiallerLabel = "trainyard dialler";

Proof MakeProof(const JobKey& key, std::string_view label, const Nonce& dialler, const Nonce& listener) {
  std::vector<unsigned char> text(label.begin(), label.end());
  for (const Nonce* nonce : {&dialler, &listener}) {
    const auto* bytes = reinterpret_cast<const unsigned char*>(nonce->data());
    text.insert(text.end(), bytes, bytes + nonce->size());
  }
  Proof proof;
  unsigned int length = 0;
  TY_CHECK(HMAC(EVP_sha256(), key.bytes().data(), static_cast<int>(key.bytes().size()), text.data(), text.size(),
                reinterpret_cast<unsigned char*>(proof.data()), &length) != nullptr &&
           length == proof.size());
  return proof;
}

Record MakeRecord(WireOp op, std::span<const std::byte> first, std::span<const std::byte> second = {}) {
  std::string bytes(reinterpret_cast<const char*>(first.data()), first.size());
  bytes.append(reinterpret_cast<const char*>(second.data()), second.size());
  Record record;
  record.header.op = op;
  record.payload = Payload::OfText(std::move(bytes));
  record.header.length = static_cast<uint32_t>(record.payload.size());
  return record;
}

absl::Status Expect(const Record& record, WireOp op, size_t bytes) {
  if (record.header.op != op) {
    return absl::UnauthenticatedError(fmt::format(
        "the first records of a stream must prove the job's key: found '{}', expected '{}'; has this replica the file 'key' of its job's "
        "config folder?",
        WireOpName(record.header.op), WireOpName(op)));
  }
  if (record.payload.size() == bytes) return absl::OkStatus();
  return absl::UnauthenticatedError(fmt::format("'{}' has {} bytes of payload, expected {}", WireOpName(op), record.payload.size(), bytes));
}

template <size_t kSize>
std::array<std::byte, kSize> Take(PayloadReader& reader) {
  std::array<std::byte, kSize> bytes;
  reader.Read(bytes);
  return bytes;
}

absl::Status Compare(const Proof& found, const Proof& expected) {
  if (CRYPTO_memcmp(found.data(), expected.data(), expected.size()) == 0) return absl::OkStatus();
  return absl::UnauthenticatedError("it holds another job's key");
}

}  // namespace

absl::StatusOr<Nonce> MakeNonce() {
  Nonce nonce;
  if (RAND_bytes(reinterpret_cast<unsigned char*>(nonce.data()), static_cast<int>(nonce.size())) == 1) return nonce;
  return absl::InternalError("the operating system gives no random bytes");
}

Record DiallerChallenge::Challenge() const { return MakeRecord(WireOp::kChallenge, nonce_); }

absl::StatusOr<Record> DiallerChallenge::Answer(const Record& proof) const {
  if (absl::Status status = Expect(proof, WireOp::kProof, kNonceBytes + kProofBytes); !status.ok()) return status;
  PayloadReader reader(proof.payload);
  const Nonce theirs = Take<kNonceBytes>(reader);
  if (absl::Status status = Compare(Take<kProofBytes>(reader), MakeProof(key_, kListenerLabel, nonce_, theirs)); !status.ok())
    return status;
  return MakeRecord(WireOp::kProof, MakeProof(key_, kDiallerLabel, nonce_, theirs));
}

absl::StatusOr<Record> ListenerChallenge::Answer(const Record& challenge) {
  if (absl::Status status = Expect(challenge, WireOp::kChallenge, kNonceBytes); !status.ok()) return status;
  PayloadReader reader(challenge.payload);
  theirs_ = Take<kNonceBytes>(reader);
  answered_ = true;
  return MakeRecord(WireOp::kProof, nonce_, MakeProof(key_, kListenerLabel, theirs_, nonce_));
}

absl::Status ListenerChallenge::Check(const Record& proof) const {
  TY_CHECK(answered_);
  if (absl::Status status = Expect(proof, WireOp::kProof, kProofBytes); !status.ok()) return status;
  PayloadReader reader(proof.payload);
  return Compare(Take<kProofBytes>(reader), MakeProof(key_, kDiallerLabel, theirs_, nonce_));
}

}  // namespace trainyard::engine
