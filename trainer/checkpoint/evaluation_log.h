// <checkpoints>/evaluations.json: what was evaluated so far, for resumed runs and for the chief of
// a job with an evaluator.
//
// {"evaluations": [{"step", "epoch", "metrics": {name: number}, "checkpoint"}]} with steps rising,
// the newest 10,000 of them. "checkpoint" is the digest of the checkpoint that was evaluated
// (checkpoint.h), "" where the chief evaluated the parameters in its hands. The replica that
// evaluates writes it, as a whole after each evaluation. Readers see the old file or the new one.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "trainer/checkpoint/evaluation_judge.h"

namespace trainyard::engine {

struct LoggedEvaluation {
  Evaluation evaluation;
  std::string checkpoint;

  friend bool operator==(const LoggedEvaluation&, const LoggedEvaluation&) = default;
};

// One writer. Not thread-safe.
class EvaluationLog {
 public:
  // Reads <dir>/evaluations.json; a file that is absent is an empty log. DataLoss names a file that
  // is none.
  static absl::StatusOr<EvaluationLog> Open(const std::string& dir);

  const std::vector<LoggedEvaluation>& evaluations() const { return evaluations_; }
  // Whether this very checkpoint was evaluated.
  bool Contains(int64_t step, std::string_view checkpoint) const;
  // Adds it durably. Evaluations of the same and later steps belong to a line of training that was
  // given up, and go.
  absl::Status Add(LoggedEvaluation evaluation);
  // Forgets evaluations of later steps; the file follows with the next Add.
  void ForgetAfter(int64_t step);

 private:
  explicit EvaluationLog(std::string dir) : dir_(std::move(dir)), path_(dir_ + "/evaluations.json") {}

  std::string dir_;
  std::string path_;
  std::vector<LoggedEvaluation> evaluations_;
  std::vector<std::string> lines_;  // of the file: the first evaluations as text, so that an Add makes text of the new one only
};

}  // namespace trainyard::engine
