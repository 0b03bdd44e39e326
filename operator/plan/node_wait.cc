#include "operator/plan/node_wait.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>

#include "operator/api/text.h"

namespace trainyard::control {
namespace {

constexpr size_t kMaxSchedulerWords = 600;
constexpr std::string_view kInsufficient = "Insufficient ";
constexpr std::string_view kUnboundClaims = "pod has unbound immediate PersistentVolumeClaims";

// "2 Insufficient nvidia.com/gpu": so many nodes, and what each of them says.
struct NodeRefusal {
  int nodes = 0;
  std::string_view reason;
};

struct NodeRefusals {
  int nodes = 0;  // of the cluster
  std::vector<NodeRefusal> list;
};

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

// Of what `text` begins with, which is taken from it.
std::optional<int> TakeNumber(std::string_view& text) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || number < 0) return std::nullopt;
  text.remove_prefix(end - text.data());
  return number;
}

bool Take(std::string_view& text, std::string_view beginning) {
  if (!text.starts_with(beginning)) return false;
  text.remove_prefix(beginning.size());
  return true;
}

// Where the next reason begins behind ", "; npos after the last one.
size_t NextReason(std::string_view text) {
  for (size_t at = text.find(", "); at != std::string_view::npos; at = text.find(", ", at + 1)) {
    if (at + 2 < text.size() && IsDigit(text[at + 2])) return at;
  }
  return std::string_view::npos;
}

// "0/3 nodes are available: REASONS. preemption: ...": the number of nodes, and the reasons in
// place of the whole. Source: FitError.Error of k8s.io/kubernetes/pkg/scheduler/framework.
std::optional<int> TakeFitError(std::string_view& said) {
  std::string_view rest = said;
  if (!Take(rest, "0/")) return std::nullopt;
  const std::optional<int> nodes = TakeNumber(rest);
  if (!nodes || *nodes == 0 || !Take(rest, " nodes are available: ") || rest.empty()) return std::nullopt;
  said = rest.substr(0, rest.find(". "));
  if (said.ends_with('.')) said.remove_suffix(1);
  return nodes;
}

std::optional<NodeRefusals> ParseFitError(std::string_view said) {
  NodeRefusals refusals;
  const std::optional<int> nodes = TakeFitError(said);
  if (!nodes) return std::nullopt;
  refusals.nodes = *nodes;
  while (!said.empty()) {
    const size_t end = NextReason(said);
    std::string_view one = said.substr(0, end);
    const std::optional<int> count = TakeNumber(one);
    if (!count || !Take(one, " ") || one.empty()) return std::nullopt;
    refusals.list.push_back({.nodes = *count, .reason = one});
    said = end == std::string_view::npos ? std::string_view() : said.substr(end + 2);
  }
  return refusals.list.empty() ? std::nullopt : std::optional(std::move(refusals));
}

// The scheduler's words that do not read as what one node, or several, do. What follows them stays.
struct Phrase {
  std::string_view said;
  std::string_view of_one;
  std::string_view of_several;
};
constexpr std::array<Phrase, 6> kPhrases = {{
    {kInsufficient, "lacks ", "lack "},
    {"Too many pods", "has no room for another pod", "have no room for another pod"},
    {"node(s) had untolerated taint(s)", "has a taint that the pod does not tolerate", "have a taint that the pod does not tolerate"},
    {"node(s) had untolerated taint", "has a taint that the pod does not tolerate:", "have a taint that the pod does not tolerate:"},
    {"node(s) didn't match Pod's node affinity/selector", "does not match the pod's nodeSelector or affinity",
     "do not match the pod's nodeSelector or affinity"},
    {"node(s) were unschedulable", "is cordoned", "are cordoned"},
}};

std::string Predicate(const NodeRefusal& refusal) {
  std::string_view rest = refusal.reason;
  for (const Phrase& phrase : kPhrases) {
    if (!Take(rest, phrase.said)) continue;
    return fmt::format(" {}{}", refusal.nodes == 1 ? phrase.of_one : phrase.of_several, rest);
  }
  Take(rest, "node(s) ");
  return fmt::format(": {}", rest);
}

// The first of some replicas, and how many more there are.
struct FirstAndMore {
  const Pod* first = nullptr;
  ReplicaId id;
  int more = 0;

  void Add(const ReplicaId& next, const Pod& pod) {
    if (pod.meta.deletion_time) return;
    if (first != nullptr) {
      ++more;
      return;
    }
    first = &pod;
    id = next;
  }
  std::string Names() const { return Name(id) + (more > 0 ? fmt::format(" (and {} more)", more) : ""); }
};

// Of these replicas, those whose pod is so.
template <typename IsSo>
FirstAndMore Among(const Observed& observed, const std::vector<ReplicaId>& replicas, IsSo is_so) {
  FirstAndMore waits;
  for (const ReplicaId& id : replicas) {
    const auto found = observed.pods.find(id);
    if (found != observed.pods.end() && is_so(*found->second)) waits.Add(id, *found->second);
  }
  return waits;
}

std::string Subject(const NodeRefusal& refusal, int nodes, bool first) {
  if (nodes == 1) return first ? "the only node" : "it";
  if (refusal.nodes >= nodes) return fmt::format("all {}{}", nodes, first ? " nodes" : "");
  return first ? fmt::format("{} of {} nodes", refusal.nodes, nodes) : std::to_string(refusal.nodes);
}

}  // namespace

std::string PlainSchedulerWords(std::string_view said) {
  std::string words;
  if (const std::optional<NodeRefusals> refusals = ParseFitError(said)) {
    for (const NodeRefusal& refusal : refusals->list) {
      words += fmt::format("{}{}{}", words.empty() ? "" : ", ", Subject(refusal, refusals->nodes, words.empty()), Predicate(refusal));
    }
  } else {
    TakeFitError(said);  // where it is one, the pod itself is not ready, whatever the nodes are like
    words = said == kUnboundClaims ? "the pod's PersistentVolumeClaim is not bound" : said;
  }
  std::replace(words.begin(), words.end(), '\n', ' ');
  words = Head(words, kMaxSchedulerWords);
  while (!words.empty() && (words.back() == '.' || words.back() == ' ')) words.pop_back();
  return words;
}

std::string LackingDevice(std::string_view said) {
  const std::optional<NodeRefusals> refusals = ParseFitError(said);
  if (!refusals) return "";
  for (const NodeRefusal& refusal : refusals->list) {
    std::string_view name = refusal.reason;
    if (Take(name, kInsufficient) && name.find('/') != std::string_view::npos) return Head(name, kMaxSchedulerWords);
  }
  return "";
}

bool WaitsForOtherPods(std::string_view said) { return said.find("No preemption victims found") != std::string_view::npos; }

std::string DescribeNodeWait(const Observed& observed, const std::vector<ReplicaId>& replicas) {
  const FirstAndMore waits = Among(observed, replicas, [](const Pod& pod) { return !pod.unschedulable.empty(); });
  return waits.first == nullptr ? "" : fmt::format("no node takes {}: {}", waits.Names(), PlainSchedulerWords(waits.first->unschedulable));
}

std::string DescribeGates(const Observed& observed, const std::vector<ReplicaId>& replicas) {
  const FirstAndMore waits = Among(observed, replicas, [](const Pod& pod) { return !pod.gates.empty(); });
  return waits.first == nullptr
             ? ""
             : fmt::format("{} is held by scheduling gate {}, which another controller removes", waits.Names(), waits.first->gates);
}

std::string DescribeLostNode(const Observed& observed, const std::vector<ReplicaId>& replicas) {
  const FirstAndMore waits = Among(observed, replicas, [&observed](const Pod& pod) {
    const auto node = observed.down_nodes.find(pod.node);
    return node != observed.down_nodes.end() && node->second == NodeDown::kNotReady;
  });
  return waits.first == nullptr ? "" : fmt::format("{} is on node {}, which is not Ready", waits.Names(), waits.first->node);
}

std::string DescribeUnhealthyDevices(const Observed& observed) {
  FirstAndMore suffers;
  for (const auto& [id, pod] : observed.pods) {
    if (!pod->unhealthy_device.empty() && pod->phase == PodPhase::kRunning) suffers.Add(id, *pod);
  }
  return suffers.first == nullptr ? ""
                                  : fmt::format("{} runs on an unhealthy device: {}", suffers.Names(), suffers.first->unhealthy_device);
}

}  // namespace trainyard::control
