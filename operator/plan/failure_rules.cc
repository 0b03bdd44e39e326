#include "operator/plan/failure_rules.h"

#include <fmt/format.h>

#include <algorithm>

#include "operator/api/words.h"

namespace trainyard::control {
namespace {

class Matcher {
 public:
  Matcher(const Pod& pod, PodState state) : pod_(pod), state_(state) {}

  // What matched, in words; empty: the rule does not match.
  std::string Match(const PodFailureRule& rule) const {
    return rule.exit_codes ? MatchExitCodes(*rule.exit_codes) : MatchConditions(rule.conditions);
  }

 private:
  bool HasEnded() const { return state_ == PodState::kFailed || state_ == PodState::kDisrupted; }

  std::string MatchExitCodes(const ExitCodesPattern& pattern) const {
    if (state_ == PodState::kDisrupted || (!HasEnded() && pattern.container.empty())) return "";
    for (const ContainerStatus& container : pod_.containers) {
      if (Matches(pattern, container)) return Describe("container", container);
    }
    if (!HasEnded()) return "";
    for (const ContainerStatus& container : pod_.init_containers) {
      if (Matches(pattern, container)) return Describe("init container", container);
    }
    return "";
  }

  static bool Matches(const ExitCodesPattern& pattern, const ContainerStatus& container) {
    if (!container.terminated || container.terminated->exit_code == 0) return false;
    if (!pattern.container.empty() && pattern.container != container.name) return false;
    return (std::ranges::count(pattern.values, container.terminated->exit_code) > 0) == pattern.in;
  }

  static std::string Describe(std::string_view kind, const ContainerStatus& container) {
    return fmt::format("{} {} ended with exit code {}", kind, container.name, container.terminated->exit_code);
  }

  std::string MatchConditions(const std::vector<PodConditionPattern>& patterns) const {
    if (!HasEnded()) return "";
    for (const PodCondition& condition : pod_.conditions) {
      const auto same = [&](const PodConditionPattern& pattern) {
        return pattern.type == condition.type && pattern.status == condition.status;
      };
      if (std::ranges::any_of(patterns, same)) return fmt::format("its condition {} is {}", condition.type, condition.status);
    }
    return "";
  }

  const Pod& pod_;
  const PodState state_;
};

}  // namespace

std::optional<RuleMatch> MatchFailureRules(const RunPolicy& policy, const Pod& pod, PodState state) {
  if (state == PodState::kCompleted) return std::nullopt;
  const Matcher matcher(pod, state);
  for (size_t i = 0; i < policy.failure_rules.size(); ++i) {
    const PodFailureRule& rule = policy.failure_rules[i];
    const std::string found = matcher.Match(rule);
    if (found.empty()) continue;
    return RuleMatch{.action = rule.action,
                     .why = fmt::format("runPolicy.podFailurePolicy.rules[{}] says {}: {}", i,
                                        words::kFailureActions[static_cast<size_t>(rule.action)], found)};
  }
  return std::nullopt;
}

}  // namespace trainyard::control
