// What workers and servers tell each other before they train, as JSON in the payload of kHello, kWelcome and kState.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "trainer/kvstore/mode.h"
#include "trainer/tensor/parameter_set.h"

namespace trainyard::engine {

// What both sides must agree on.
struct KvAgreement {
  KvMode mode = KvMode::kAsync;
  int workers = 1;
  int servers = 1;
  int server = 0;  // which one this is, or is thought to be
  uint64_t placement = 0;
  std::vector<std::string> slots;
  std::vector<std::string> tensors;  // "conv1/kernel F32 [5, 5, 1, 20]"
};
KvAgreement MakeAgreement(std::span<const ParameterSpec> specs);

struct KvHello {
  KvAgreement agreement;
  std::string vocabulary;  // see KvClientOptions; the servers compare it among the workers, as they read no text themselves
  bool chief = false;
  bool left = false;  // pushes no more; this is a lane dialled again
};

struct KvServerState {
  int64_t worker_step = -1;  // the next step of this worker as far as the server knows; -1: it cannot tell
  int training = 0;          // other workers that may still push
  int64_t end_step = -1;     // the chief has ended the training at this step; -1: it goes on
};

std::string ToJson(const KvHello& hello);
std::string ToJson(const KvServerState& state);
// InvalidArgument names the field.
absl::StatusOr<KvHello> ParseHello(std::string_view json);
absl::StatusOr<KvServerState> ParseServerState(std::string_view json);

// FailedPrecondition says what differs first, what each side has; the names are for the message.
absl::Status CheckAgreement(const KvAgreement& ours, std::string_view our_name, const KvAgreement& theirs, std::string_view their_name);

}  // namespace trainyard::engine
