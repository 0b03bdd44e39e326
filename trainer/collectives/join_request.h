// The request by which a rank joins another: JSON in the payload of kJoin.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "trainer/base/input_origin.h"

namespace trainyard::engine {

// Settings that must be equal on all ranks, as (name, value), in an order that is equal too:
// {"ranks", "4"}, {"tensor 0", "conv1/kernel F32 [5, 5, 1, 20]"}.
using GroupAgreement = std::vector<std::pair<std::string, std::string>>;

struct JoinRequest {
  GroupAgreement agreement;
  int64_t furthest = -1;         // the step whose state this rank has in memory; -1: it has not trained in this process
  InputOrigin origin = {};       // of that state
  std::string because;           // why it joins anew; "": it has not been in a group
  bool from_checkpoint = false;  // it cannot go on from the values that a rank has in memory
  std::string node;              // that it runs on; "": unknown
  std::string device_kind;       // RankGroupOptions::device_kind
};

std::string ToJson(const JoinRequest& request);
// InvalidArgument names the field.
absl::StatusOr<JoinRequest> ParseJoinRequest(std::string_view json);

// FailedPrecondition says what differs first, what each side has.
absl::Status CheckAgreement(const GroupAgreement& ours, int our_rank, const GroupAgreement& theirs, int their_rank);

}  // namespace trainyard::engine
