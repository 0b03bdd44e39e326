// Next steps for the user, as commands that work when they are typed as printed. Pure.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace trainyard::engine {

struct Hint {
  std::string arguments;  // of the program
  std::string what;       // it does

  friend bool operator==(const Hint&, const Hint&) = default;
};

struct HintContext {
  std::string dir;                     // the run's folder
  std::string file;                    // the job file
  std::vector<std::string> overrides;  // the run's --set
  bool profiled = false;
  std::optional<bool> serves_best;         // what spec.serve would serve, where the job has it
  std::optional<int64_t> checkpoint_step;  // of the newest checkpoint
};

// `report` as report.h writes it. The run's own overrides go into every command but where the
// command is about that very field. Longer training is twice what the run has done; more workers
// are the next of 2, 4 and 8. A job that has failed can go on from its newest checkpoint, and
// nothing else is offered.
std::vector<Hint> NextSteps(const nlohmann::json& report, const HintContext& context);

}  // namespace trainyard::engine
