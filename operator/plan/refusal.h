// Children that the API server refuses to create for a job: its own words, and the next step. Pure.
#pragma once

#include <optional>
#include <string>

#include "absl/time/time.h"
#include "operator/api/training_job.h"
#include "operator/children/child_ref.h"

namespace trainyard::control {

struct Refusal {
  ChildRef child;       // the first that was refused
  int count = 1;        // children of its kind that are missing because of it
  int code = 403;       // of the answer
  bool edits = false;   // the child is there and was to be changed
  std::string words;    // the server's
  absl::Duration wait;  // until the server is to be asked again; zero: it may be asked now
  friend bool operator==(const Refusal&, const Refusal&) = default;
};

// Whether only an edit of the job can help: the object is malformed (400, 422) or too big (413).
bool BlamesTheSpec(const Refusal& refusal);

// "3 pods cannot be created, the API server says: <words>; <next step>", at most 1 KiB, with the
// next step in any case.
std::string DescribeRefusal(const TrainingJob& job, const Refusal& refusal);

}  // namespace trainyard::control
