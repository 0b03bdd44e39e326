// The pushes of a worker's step, and the answers that it waits for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "trainer/kvstore/placement.h"
#include "trainer/tensor/parameter_set.h"
#include "trainer/transport/payload.h"

namespace trainyard::engine {

// The last push of one part. The memory is the caller's.
struct PartPush {
  // Of the part; rows are the tensor's, those that the part has something of. Without addends: no
  // device of the worker had examples.
  GradientView gradient;
  std::span<const std::byte> compressed{};  // its values as they travel, where those are no float32
  int64_t step = -1;                        // none yet
  int64_t order = 0;                        // among all pushes
  bool outstanding = false;
};

// Values of a part that have arrived.
struct ArrivedValues {
  int part;
  int64_t step;  // of the push that this answers
  Payload values;
  std::optional<std::vector<int32_t>> rows;  // ParseRowPayload's, where `values` are changed rows only
};

// Not thread-safe. Parts are indices into Placement::parts; placement and specs must outlive it.
class PendingPushes {
 public:
  PendingPushes(const Placement& placement, const std::vector<ParameterSpec>& specs, int servers);

  // The part must have no push outstanding.
  void Add(int part, PartPush push);
  const PartPush& operator[](int part) const { return pushes_[part]; }
  // The server has answered with values.
  void Answer(int part, Payload values, std::optional<std::vector<int32_t>> rows);
  // Steps from `step` on are never done: what was pushed for them needs no answer.
  void DropFrom(int64_t step);
  // Forgets everything that was pushed.
  void Forget();

  // A server (again) has values: the parts of it whose push it must hear (again), in the order in
  // which all workers push. A server that holds what the others have not pushed yet then needs to
  // hold little. `unfinished_step`: the answered pushes of that step are outstanding again, since
  // the server has lost what they became; nothing: it has not.
  std::vector<int> Resend(int server, std::optional<int64_t> unfinished_step);

  bool none_outstanding() const { return outstanding_ == 0; }
  bool none_arrived() const { return arrived_.empty(); }
  std::vector<ArrivedValues> TakeArrived();
  // The first part with an outstanding push; -1: none.
  int FirstOutstanding() const;
  // By server: whether it owes an answer.
  std::vector<bool> ServersThatOwe() const;

  // All trainable parts have been pushed since the last Flushed: the step's small records need not
  // wait for company any longer.
  bool FlushDue() const { return unflushed_ == trainable_parts_; }
  void Flushed() { unflushed_ = 0; }

 private:
  const std::vector<Part>& parts_;
  const std::vector<ParameterSpec>& specs_;
  const int servers_;
  size_t trainable_parts_ = 0;
  std::vector<PartPush> pushes_;
  int64_t count_ = 0;
  size_t outstanding_ = 0;
  size_t unflushed_ = 0;  // trainable parts
  std::vector<ArrivedValues> arrived_;
};

}  // namespace trainyard::engine
