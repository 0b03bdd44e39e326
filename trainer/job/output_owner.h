// <output>/job.json: which job writes into an output folder, so that two jobs with one claim do not
// spoil each other's checkpoints.
//
//   {"name": "mnist", "uid": "5f0c…"}      and "ended": true once the job's chief has ended for good
//
// While a job runs, its replicas keep the file's modification time fresh (a beat). A folder whose
// file is another job's is refused while that job beats. A job that has ended, or has not beaten
// for `stale`, leaves its folder to the next one. That job goes on from its files. All times are
// those of the folder's file system: hosts' clocks may differ.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "trainer/base/notification.h"

namespace trainyard::engine {

struct OutputOwnerOptions {
  std::string output;
  std::string job_name;
  std::string job_uid;
  bool chief = false;
  absl::Duration beat = absl::Seconds(10);
  absl::Duration stale = absl::Seconds(60);
};

class OutputOwner {
 public:
  // Waits for a duration; false when the process is asked to stop.
  using Wait = std::function<bool(absl::Duration)>;

  // Makes the folder the job's, and keeps it so from a thread of its own. Waits (at most `stale`
  // and two beats) to see whether another job whose file is fresh still beats. FailedPrecondition:
  // it does. Cancelled: `wait` said to stop. `lost` is called, once and from that thread, when
  // another job has taken the folder nevertheless.
  static absl::StatusOr<std::unique_ptr<OutputOwner>> Claim(OutputOwnerOptions options, const Wait& wait,
                                                            std::function<void(const absl::Status&)> lost);
  ~OutputOwner();
  OutputOwner(const OutputOwner&) = delete;
  OutputOwner& operator=(const OutputOwner&) = delete;

  // One look at the file: freshens it, unless another replica has done so since the last look.
  // FailedPrecondition when it is another job's. A beat that the file system refuses is tried again
  // with the next one.
  absl::Status Beat();
  // The job is over: the folder is free for the next one. The chief says so.
  absl::Status End();

 private:
  OutputOwner(OutputOwnerOptions options, std::function<void(const absl::Status&)> lost);
  absl::Status TakeOver(const Wait& wait);
  absl::Status Write(bool ended);
  void Run();

  const OutputOwnerOptions options_;
  const std::string path_;
  const std::function<void(const absl::Status&)> lost_;
  absl::Time seen_ = absl::InfinitePast();  // the last beat, this replica's or another's; of the thread once that runs
  Notification ending_;
  std::thread beats_;
};

}  // namespace trainyard::engine
