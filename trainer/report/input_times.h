// The time of each stage of the input pipeline, added up over batches.
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "trainer/data/stage_log.h"

namespace trainyard::engine {

// Stages keep the order in which they were first seen. Not thread-safe.
class InputTimes {
 public:
  void Add(std::span<const StageSpan> spans) {
    for (const StageSpan& span : spans) Of(span.stage) += absl::ToDoubleSeconds(span.duration);
  }
  const std::vector<std::pair<std::string, double>>& seconds() const { return seconds_; }

 private:
  double& Of(std::string_view stage) {
    for (auto& [name, seconds] : seconds_) {
      if (name == stage) return seconds;
    }
    return seconds_.emplace_back(stage, 0.0).second;
  }
  std::vector<std::pair<std::string, double>> seconds_;
};

}  // namespace trainyard::engine
