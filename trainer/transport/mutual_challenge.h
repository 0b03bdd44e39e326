// Both ends of a new stream prove to each other that they hold the job's key, without sending it.
// The proof is HMAC-SHA256 (RFC 2104) over two nonces.
//
//   dialler  → listener   challenge   nonce D (32 bytes)
//   listener → dialler    proof       nonce L (32 bytes), HMAC(key, "trainyard listener" | D | L)
//   dialler  → listener   proof       HMAC(key, "trainyard dialler" | D | L)
//
// Each side contributes a fresh nonce, so that nothing recorded can be replayed. Each side's label
// differs, so that no proof can be reflected. Pure: no stream, no clock. The randomness comes from
// the operating system.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "trainer/transport/job_key.h"
#include "trainer/transport/transport.h"

namespace trainyard::engine {

inline constexpr size_t kNonceBytes = 32;
inline constexpr size_t kProofBytes = 32;
using Nonce = std::array<std::byte, kNonceBytes>;
using Proof = std::array<std::byte, kProofBytes>;

absl::StatusOr<Nonce> MakeNonce();

// The dialler's side of one stream.
class DiallerChallenge {
 public:
  DiallerChallenge(const JobKey& key, const Nonce& nonce) : key_(key), nonce_(nonce) {}

  Record Challenge() const;
  // The listener's proof → the dialler's. Unauthenticated: the record is something else, or made
  // with another key.
  absl::StatusOr<Record> Answer(const Record& proof) const;

 private:
  const JobKey key_;
  const Nonce nonce_;
};

// The listener's side of one stream.
class ListenerChallenge {
 public:
  ListenerChallenge(const JobKey& key, const Nonce& nonce) : key_(key), nonce_(nonce) {}

  // The dialler's challenge → the listener's proof. Unauthenticated: the record is something else.
  absl::StatusOr<Record> Answer(const Record& challenge);
  // The dialler's proof, after Answer. Unauthenticated: the record is something else, or made with
  // another key.
  absl::Status Check(const Record& proof) const;
  bool answered() const { return answered_; }

 private:
  const JobKey key_;
  const Nonce nonce_;
  Nonce theirs_{};
  bool answered_ = false;
};

}  // namespace trainyard::engine
