// The record that travels between replicas: a 64-byte little-endian header, then raw bytes.
// docs/wire.md is the format's one home.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace trainyard::engine {

inline constexpr uint32_t kWireMagic = 0x44525954;  // "TYRD" as the bytes stand on the wire
inline constexpr uint16_t kWireVersion = 2;
inline constexpr size_t kWireHeaderBytes = 64;
inline constexpr uint32_t kMaxPayloadBytes = 1u << 20;  // of one record; longer tensors travel in parts

enum class WireOp : uint16_t {
  kHello = 1,       // first record of a worker: who it is and what it trains, as JSON
  kWelcome = 2,     // the server's answer: its state
  kState = 3,       // the server's state again, because it changed
  kAssign = 4,      // chief → server: start values of a part
  kReady = 5,       // chief → server: every part was assigned, training starts at `step`
  kPull = 6,        // worker → server: send every part (with its slots when kWireFlagSlots)
  kValues = 7,      // server → worker: one part, answering kPull
  kPush = 8,        // worker → server: the gradient of one part
  kParameters = 9,  // server → worker: fresh parameters of one part, answering kPush
  kHeartbeat = 10,  // worker → server: I am alive; `step` counts what I did beside pushing. server → worker: the round that you wait for is
                    // open because others are at work
  kLeave = 11,      // worker → server: I push no more; sync: I have done all steps and wait for the release
  kDone = 12,       // worker → server: I am leaving for good
  kError = 13,      // why the other side gives up, as text; the payload's first 4 bytes are the absl::StatusCode
  kEnd = 14,        // chief → server: the training ends; in sync mode no round from `step` on is done
  kCredit = 15,     // either: `step` more bytes of records with parts of tensors may come; only the stream layer sees it
  kChallenge = 16,  // dialler → listener, first of all in a job with a key: mutual_challenge.h
  kProof = 17,      // either: that it holds the job's key
  kReset = 18,      // chief → server, sync: forget all values and take a new incarnation
  kTorn = 19,       // worker → server, sync: I cannot go on from what the servers hold; the payload says why
  kRelease = 20,    // chief → server, sync: the training's result is safe, workers may end; all-reduce: rank 0 → rank
  kJoin = 21,       // rank → rank, first of all: who it is and what it trains, as JSON; `epoch` 0: it asks rank 0 for a group
  kForm = 22,       // answer to kJoin: the group `epoch` stands; from rank 0: training goes on at `step`
  kSum = 23,        // rank → rank: a range of a bucket, the sum of `slot` devices' values
  kResult = 24,     // rank → rank: a range of a bucket's result
  kFinished = 25,   // rank 0 → rank, in answer to kJoin: the training is over at `step`, wait for the release
  kOffer = 26,      // dialler → listener, first of all behind a proof: memory to share (shared_segment.h); empty: there is none
  kShare = 27,      // listener → dialler, the answer: the token in that memory; empty: it cannot be opened here
  kPace = 28,       // worker → server, server → chief, rank → rank 0, sync: how long a worker takes for a step by itself
  kNewer = 29,      // worker → server, async: values of one part; the server was filled with older ones
  kAsk = 30,        // rank 0 → rank: send what you have of the optimizer's slots, between the steps before `step` and `step`
};
std::string_view WireOpName(WireOp op);

inline constexpr uint32_t kWireFlagSlots = 1;      // kPull: with optimizer slots; kValues, kAssign: field `slot` counts from 1
inline constexpr uint32_t kWireFlagDuplicate = 2;  // kParameters: the push had been applied before
inline constexpr uint32_t kWireFlagRows = 4;       // kPush, kParameters: some rows of the part; kSum, kResult: the touched rows of a step
inline constexpr uint32_t kWireFlagPosition = 8;   // kHello: `step` is the next step that this worker will push
inline constexpr uint32_t kWireFlagAgain = 32;     // kForm, from rank 0: ranks have trained in a group before
inline constexpr uint32_t kWireFlagStart = 64;     // kResult: of the state that a group starts with
inline constexpr uint32_t kWireFlagReady = 16;     // kWelcome, kState: the server has its parameters
inline constexpr uint32_t kWireFlagOneKind = 128;  // kForm, from rank 0: all ranks have told one kind of device

inline constexpr uint8_t kWireDTypeNone = 0xff;  // the payload is not a tensor

// Fields in host order; Encode and Decode are the only code that knows the bytes.
struct WireHeader {
  WireOp op = WireOp::kHeartbeat;
  uint32_t flags = 0;
  uint32_t epoch = 0;              // the server's incarnation: another one means that it was restarted
  uint32_t sender = 0;             // rank: worker index; 0xffffffff: an observer; 0x80000000 + index: a server
  uint32_t key = 0;                // the parameter's index
  uint32_t part = 0;               // which part of that tensor, from 0
  uint16_t slot = 0;               // 0: the parameter itself; n: optimizer slot n - 1; kPush, kSum, kResult: devices whose values are in it
  uint8_t dtype = kWireDTypeNone;  // trainer/tensor/dtype.h
  uint8_t codec = 0;               // 0: raw; no other is defined yet
  uint64_t step = 0;
  uint64_t offset = 0;       // first byte of the part in its tensor
  uint32_t length = 0;       // bytes of payload after the header
  uint32_t crc = 0;          // 0: not checked (TCP does); nothing else is accepted yet
  uint64_t fingerprint = 0;  // FingerprintOf the sender's parameter list

  friend bool operator==(const WireHeader&, const WireHeader&) = default;
};

std::array<std::byte, kWireHeaderBytes> Encode(const WireHeader& header);

// InvalidArgument names the field, what was found and what is expected. Checks everything that
// needs no knowledge of the model: magic, version, op, dtype, codec, crc, length <=
// kMaxPayloadBytes.
absl::StatusOr<WireHeader> Decode(std::span<const std::byte, kWireHeaderBytes> bytes);

}  // namespace trainyard::engine
