// <output>/epochs.jsonl: the epochs that a chief has told, one on a line. A chief that goes on in
// its place, after a kill or in another launch, reports them too.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "trainer/report/replica_report.h"

namespace trainyard::engine {

// A line is written to the system when its epoch ends: a killed process loses none. An epoch whose
// steps are done again stands there twice; the later line counts, and ends those after it.
class EpochLog {
 public:
  explicit EpochLog(const std::string& output) : path_(output + "/epochs.jsonl") {}

  // The epochs up to `step`, in their order: the file then has no others. A line that cannot be
  // read, as the last one after a kill, is left out.
  std::vector<EpochRecord> GoOnFrom(int64_t step);
  // What cannot be written is told in the log, once.
  void Append(const EpochRecord& epoch);

 private:
  void Told(const absl::Status& status);

  const std::string path_;
  bool told_ = false;
};

}  // namespace trainyard::engine
