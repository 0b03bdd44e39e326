// The steps that a synchronous job had to do again, kept over restarts of all its replicas. The
// chief writes two files:
//   <checkpoints>/redone.json  {"times": 2, "redone": [{"from", "to", "reason"}]}: times counts all records, those that are gone too
//   <checkpoints>/reached      "2 97": how far the training has come since; gone when the run is over
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "trainer/base/owned_fd.h"
#include "trainer/report/replica_report.h"

namespace trainyard::engine {

// Used from one thread. Begin is durable. What Reach was told outlives the process, and its node
// once the kernel has written it. So a step that Reach was told of and that comes again is in the
// list, once for each time, whichever replicas are lost and whenever.
class RedoneLog {
 public:
  // Goes on with what is in the folder. DataLoss: redone.json is damaged.
  static absl::StatusOr<std::unique_ptr<RedoneLog>> Open(std::string dir);
  // Removes both files.
  static absl::Status Clear(const std::string& dir);

  // A run was begun there and is not over.
  bool under_way() const { return reached_ >= 0; }
  // Another run begins: the list is empty.
  absl::Status Forget();
  // The training begins, or goes on, at `step`. Returns the record that is added where it had come
  // further. `known`: what this chief has learnt of that from its peers. A full disk is told, and
  // the list is in memory only.
  absl::StatusOr<std::optional<RedoneRecord>> Begin(int64_t step, const std::optional<RedoneRecord>& known);
  // `step` steps are done. Cheap: one write of a few bytes that nobody waits for; call it a few
  // times a second.
  void Reach(int64_t step);
  // The run is over.
  absl::Status End();

  // The oldest go when there are very many.
  const std::vector<RedoneRecord>& records() const { return records_; }

 private:
  explicit RedoneLog(std::string dir) : dir_(std::move(dir)) {}
  absl::Status Read();
  absl::Status WriteRecords() const;
  absl::Status WriteReached();

  const std::string dir_;
  std::vector<RedoneRecord> records_;
  int64_t times_ = 0;
  int64_t reached_ = -1;         // -1: no run is under way
  std::optional<OwnedFd> file_;  // reached
};

}  // namespace trainyard::engine
