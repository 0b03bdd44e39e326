#include "trainer/page/step_timeline.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "trainer/base/whole_number.h"

namespace trainyard::engine {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

struct Span {
  int64_t replica = 0;
  int64_t lane = 0;
  double begin = 0;  // microseconds
  double end = 0;
  const json* event = nullptr;
};

Span SpanOf(const json& event) {
  Span span{.replica = GetWhole<int64_t>(event.at("pid")), .lane = GetWhole<int64_t>(event.at("tid")), .event = &event};
  span.begin = event.at("ts").get<double>();
  span.end = span.begin + event.at("dur").get<double>();
  return span;
}

bool Is(const json& event, const char* field, std::string_view text) {
  const auto found = event.find(field);
  return found != event.end() && found->is_string() && found->get_ref<const std::string&>() == text;
}

// Input is prepared in the background, and operators are within "compute".
bool IsLane(std::string_view name) {
  return name == "input" || name == "compute" || name == "communication" || name.starts_with("bucket ") || name.starts_with("serving");
}

// Those of the replica whose step was the first of all, from that step on.
std::vector<Span> FirstSteps(std::vector<Span> steps) {
  std::ranges::sort(steps, {}, &Span::begin);
  std::erase_if(steps, [replica = steps.empty() ? 0 : steps[0].replica](const Span& step) { return step.replica != replica; });
  if (steps.size() > kTimelineSteps) steps.resize(kTimelineSteps);
  return steps;
}

double Rounded(double microseconds) { return std::round(microseconds * 10) / 10; }

}  // namespace

ordered_json StepTimeline(const json& trace) {
  std::map<int64_t, std::string> replicas;
  std::map<std::pair<int64_t, int64_t>, std::string> lanes;
  std::vector<Span> steps;
  for (const json& event : trace) {
    if (!event.is_object()) continue;
    if (Is(event, "name", "process_name")) {
      replicas[GetWhole<int64_t>(event.at("pid"))] = event.at("args").at("name").get<std::string>();
    } else if (Is(event, "name", "thread_name")) {
      const std::pair at(GetWhole<int64_t>(event.at("pid")), GetWhole<int64_t>(event.at("tid")));
      if (const auto name = event.at("args").at("name").get<std::string>(); IsLane(name)) lanes[at] = name;
    } else if (Is(event, "ph", "X") && Is(event, "cat", "step")) {
      steps.push_back(SpanOf(event));
    }
  }
  steps = FirstSteps(std::move(steps));
  if (steps.empty()) return nullptr;
  const double begin = steps.front().begin;
  const double end = steps.back().end;
  std::map<std::pair<int64_t, int64_t>, ordered_json> spans;
  for (const json& event : trace) {
    if (!event.is_object() || !Is(event, "ph", "X") || Is(event, "cat", "operator")) continue;
    const Span span = SpanOf(event);
    ordered_json& lane = spans[{span.replica, span.lane}];
    if (!(span.end > begin) || !(span.begin < end) || lane.size() == kMostTimelineSpans) continue;
    const double from = std::max(span.begin, begin);
    lane.push_back({Rounded(from - begin), Rounded(std::min(span.end, end) - from), event.at("name").get<std::string>()});
  }
  ordered_json shown = ordered_json::array();
  for (const auto& [replica, name] : replicas) {
    if (shown.size() == kMostTimelineReplicas) break;
    ordered_json of_replica = ordered_json::array();
    for (auto lane = lanes.lower_bound({replica, std::numeric_limits<int64_t>::min()}); lane != lanes.end() && lane->first.first == replica;
         ++lane) {
      if (of_replica.size() == kMostTimelineLanes) break;
      if (auto found = spans.find(lane->first); found != spans.end() && !found->second.empty())
        of_replica.push_back({{"name", lane->second}, {"spans", std::move(found->second)}});
    }
    if (!of_replica.empty()) shown.push_back({{"name", name}, {"lanes", std::move(of_replica)}});
  }
  const auto step_of = [](const Span& step) { return GetWhole<int64_t>(step.event->at("args").at("step")); };
  return {{"microseconds", Rounded(end - begin)},
          {"steps", {step_of(steps.front()), step_of(steps.back())}},
          {"left_out", static_cast<int64_t>(replicas.size()) - static_cast<int64_t>(shown.size())},
          {"replicas", std::move(shown)}};
}

}  // namespace trainyard::engine
