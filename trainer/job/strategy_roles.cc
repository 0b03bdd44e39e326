#include "trainer/job/strategy_roles.h"

namespace trainyard::engine {

StrategyRoles RolesOf(StrategyConfig::Kind kind) {
  switch (kind) {
    case StrategyConfig::Kind::kLocal:
      return {.name = "local",
              .no_servers_why = "training.strategy is local; set strategy: {parameterServer: {mode: async}}",
              .many_trainers = false};
    case StrategyConfig::Kind::kParameterServer:
      return {.name = "parameterServer", .no_servers_why = ""};
    case StrategyConfig::Kind::kAllReduce:
      return {.name = "allReduce", .no_servers_why = "with training.strategy allReduce the workers hold the parameters", .chief = false};
  }
  return {};
}

}  // namespace trainyard::engine
