// Every mistake of a job file, collected while it is read, so that the user sees all of them at
// once.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"

namespace trainyard::engine {

// Line numbers (from 1) by field path, where the text's reader knows them.
using PathLines = std::map<std::string, int, std::less<>>;

// Not thread-safe.
class FieldErrors {
 public:
  // `path` as "spec.training.optimizer.learningRate" or "spec.training.model.layers[2].conv2d".
  void Add(std::string_view path, std::string_view message);

  bool empty() const { return errors_.empty(); }
  size_t size() const { return errors_.size(); }

  // Ok when there are none. Otherwise InvalidArgument with one line for each, at most 50 of them.
  // They are in the order of the file where lines are known:
  //   job.yaml: 2 errors
  //   job.yaml:12: spec.training.batchSize: found 0, expected a whole number from 1 to 1048576
  //   job.yaml:15: spec.training.optimizr: unknown field; did you mean "optimizer"?
  absl::Status ToStatus(std::string_view source, const PathLines& lines = {}) const;

 private:
  struct Error {
    std::string path;
    std::string message;
  };
  std::vector<Error> errors_;
};

}  // namespace trainyard::engine
