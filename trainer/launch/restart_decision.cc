#include "trainer/launch/restart_decision.h"

namespace trainyard::engine {
namespace {

constexpr int kFirstCuredByRestart = 128;
constexpr int kPeerWasAbsent = 200;  // docs/contract.md

RestartDecision Of(ExitCodeRule::Action action) {
  switch (action) {
    case ExitCodeRule::Action::kRestart:
      return RestartDecision::kRestart;
    case ExitCodeRule::Action::kIgnore:
      return RestartDecision::kRestartFree;
    case ExitCodeRule::Action::kFail:
      break;
  }
  return RestartDecision::kFail;
}

}  // namespace

RestartDecision DecideRestart(RestartPolicy policy, std::span<const ExitCodeRule> rules, int exit_code) {
  if (policy == RestartPolicy::kNever) return RestartDecision::kFail;
  if (policy == RestartPolicy::kExitCode) {
    for (const ExitCodeRule& rule : rules) {
      if (exit_code >= rule.from && exit_code <= rule.to) return Of(rule.action);
    }
    if (exit_code < kFirstCuredByRestart) return RestartDecision::kFail;
  }
  return exit_code == kPeerWasAbsent ? RestartDecision::kRestartFree : RestartDecision::kRestart;
}

}  // namespace trainyard::engine
