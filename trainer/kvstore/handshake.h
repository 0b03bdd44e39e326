// Messages of workers and servers before they train, as JSON in the payload of kHello, kWelcome and
// kState.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "trainer/base/input_origin.h"
#include "trainer/base/job_settings.h"
#include "trainer/kvstore/mode.h"
#include "trainer/tensor/compression.h"
#include "trainer/tensor/parameter_set.h"

namespace trainyard::engine {

// Both sides must agree on these.
struct KvAgreement {
  KvMode mode = KvMode::kAsync;
  int workers = 1;
  int devices = 1;  // of each worker
  Compression compression = Compression::kNone;
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
  JobSettings settings;    // the same; the servers compare those of the optimizer with their own, too
  int64_t end = 0;         // async: the step before which this worker ends
  bool chief = false;
  bool left = false;  // pushes no more; this is a stream dialled again
};

struct KvServerState {
  int64_t worker_step = -1;   // the next step of this worker as far as the server knows; -1: it cannot tell
  bool worker_known = false;  // async: from this worker itself
  int training = 0;           // other workers that may still push
  int64_t end_step = -1;      // the chief has ended the training at this step; -1: it goes on
  int64_t planned = -1;       // async: the global step at which all workers have ended; -1: the server holds no values
  int64_t order = 0;          // rises with every state that the server tells: of two on one stream the higher one is the newer
  // Sync only. Servers that hold one state of the training have one line (line_watch.h).
  int64_t line = 0;       // which fill by the chief these values come of; 0: none
  int64_t line_step = 0;  // the step that its first values were of
  InputOrigin origin;     // and where their input goes on
  int64_t lowest = -1;    // the open rounds of the server's parts; -1: it holds none
  int64_t highest = -1;
  bool released = false;  // the result is safe, workers may end
  std::string torn;       // why a worker cannot go on from here; "": none has said so
};

std::string ToJson(const KvHello& hello);
std::string ToJson(const KvServerState& state);
// InvalidArgument names the field.
absl::StatusOr<KvHello> ParseHello(std::string_view json);
absl::StatusOr<KvServerState> ParseServerState(std::string_view json);

// The payload of kReady: KvServerState::line, line_step and origin.
struct KvLine {
  int64_t line = 0;
  int64_t step = 0;
  InputOrigin origin = {};
};
std::string ToJson(const KvLine& line);
absl::StatusOr<KvLine> ParseLine(std::string_view json);

// FailedPrecondition says what differs first, what each side has; the names are for the message.
absl::Status CheckAgreement(const KvAgreement& ours, std::string_view our_name, const KvAgreement& theirs, std::string_view their_name);

}  // namespace trainyard::engine
