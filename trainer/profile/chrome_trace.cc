#include "trainer/profile/chrome_trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>
#include <vector>

namespace trainyard::engine {
namespace {

using nlohmann::json;

// Threads of a trainer. A server's are kFirstServing and what follows. Operators stand in the row
// of the computation; those of several devices have rows below it, from kFirstDevice on.
enum Thread {
  kSteps = 1,
  kInput = 2,
  kCompute = 3,
  kFirstDevice = 4,
  kCommunication = 1000,
  kFirstStage = 1001,
  kFirstBucket = 2000,
  kFirstServing = 1'000'000
};

struct Look {
  int thread;
  const char* category;
  const char* verb;  // before the name of what it was done to
};

Look LookOf(SpanKind kind) {
  switch (kind) {
    case SpanKind::kStep:
      return {kSteps, "step", "step"};
    case SpanKind::kInput:
      return {kInput, "input", "input"};
    case SpanKind::kCompute:
      return {kCompute, "compute", "compute"};
    case SpanKind::kUpdate:
      return {kCommunication, "communication", "update"};
    case SpanKind::kNode:
      return {kCompute, "operator", ""};
    case SpanKind::kPush:
      return {kCommunication, "communication", "push "};
    case SpanKind::kArrived:
      break;  // not drawn: the arrow ends at the pull
    case SpanKind::kPull:
      return {kCommunication, "communication", "pull "};
    case SpanKind::kReceive:
      return {kFirstServing, "communication", "receive "};
    case SpanKind::kSum:
      return {kFirstServing, "communication", "sum "};
    case SpanKind::kStage:
      return {kFirstStage, "input", ""};
    case SpanKind::kBucket:
      return {kFirstBucket, "communication", "all-reduce "};
    case SpanKind::kWait:
      return {kCommunication, "communication", "wait"};
  }
  return {0, "", ""};
}

std::string Line(const json& event) { return event.dump(-1, ' ', false, json::error_handler_t::replace); }

// Times and places of one job's events.
class TraceMaker {
 public:
  TraceMaker(std::span<const ReplicaProfile> profiles, std::span<const ClockOffset> offsets) : profiles_(profiles), offsets_(offsets) {
    for (size_t i = 0; i < profiles.size(); ++i) {
      devices_.push_back(profiles[i].devices());
      for (const Span& span : profiles[i].spans) origin_ = std::min(origin_, span.start + offsets[i].nanos);
    }
  }

  void AddReplica(size_t replica) {
    const ReplicaProfile& profile = profiles_[replica];
    NameProcess(replica);
    if (profile.rank >= 0) {
      NameThread(replica, kSteps, "steps");
      NameThread(replica, kInput, "input");
      NameThread(replica, kCompute, "compute");
      for (int device = 0; device < devices_[replica] && devices_[replica] > 1; ++device) {
        NameThread(replica, kFirstDevice + device, fmt::format("device {}", device));
      }
      NameThread(replica, kCommunication, "communication");
      for (size_t i = 0; i < profile.stages.size(); ++i) {
        NameThread(replica, kFirstStage + static_cast<int>(i), fmt::format("input: {}", profile.stages[i]));
      }
      NameBuckets(replica);
    }
    AssignServingThreads(replica);
    for (const Span& span : profile.spans) AddSpan(replica, span);
  }

  void AddFlow(const Exchange& exchange) {
    const int id = next_flow_++;
    const std::string& tensor = profiles_[exchange.worker].tensors[exchange.push->id];
    AddArrow("s", id, tensor, exchange.worker, *exchange.push);
    AddArrow("t", id, tensor, exchange.server, *exchange.sum);
    AddArrow("f", id, tensor, exchange.worker, *exchange.pull);
  }

  std::string Text() {
    std::ranges::sort(events_, {}, [](const Event& event) { return std::tuple(event.at, -event.duration, event.order); });
    std::string text = "[";
    for (const std::string& line : metadata_) text += (text.size() > 1 ? ",\n" : "\n") + line;
    for (const Event& event : events_) text += ",\n" + event.line;
    return text + "\n]\n";
  }

 private:
  struct Event {
    int64_t at;
    int64_t duration;  // of two that begin at once, the longer one holds the other
    size_t order;
    std::string line;
  };

  // Process ids count from 1: some readers take 0 for "none".
  static int Pid(size_t replica) { return static_cast<int>(replica) + 1; }
  int64_t At(size_t replica, int64_t nanos) const { return nanos + offsets_[replica].nanos - origin_; }
  static double Micros(int64_t nanos) { return static_cast<double>(nanos) / 1000; }

  void NameProcess(size_t replica) {
    const ClockOffset& offset = offsets_[replica];
    const std::string clock =
        !offset.known ? "clock not aligned"
                      : fmt::format("clock {:+.3f} ms, +-{:.3f}", Micros(offset.nanos) / 1000, Micros(offset.uncertainty) / 1000);
    const int pid = Pid(replica);
    metadata_.push_back(Line({{"name", "process_name"}, {"ph", "M"}, {"pid", pid}, {"args", {{"name", profiles_[replica].name()}}}}));
    metadata_.push_back(Line({{"name", "process_sort_index"}, {"ph", "M"}, {"pid", pid}, {"args", {{"sort_index", pid}}}}));
    metadata_.push_back(Line({{"name", "process_labels"}, {"ph", "M"}, {"pid", pid}, {"args", {{"labels", clock}}}}));
  }

  void NameThread(size_t replica, int thread, const std::string& name) {
    metadata_.push_back(Line({{"name", "thread_name"}, {"ph", "M"}, {"pid", Pid(replica)}, {"tid", thread}, {"args", {{"name", name}}}}));
    metadata_.push_back(
        Line({{"name", "thread_sort_index"}, {"ph", "M"}, {"pid", Pid(replica)}, {"tid", thread}, {"args", {{"sort_index", thread}}}}));
  }

  // Each has a row of its own, as several are under way at once.
  void NameBuckets(size_t replica) {
    std::set<int32_t> buckets;
    for (const Span& span : profiles_[replica].spans) {
      if (span.kind == SpanKind::kBucket) buckets.insert(span.id);
    }
    for (const int32_t bucket : buckets) NameThread(replica, kFirstBucket + bucket, fmt::format("bucket {}", bucket));
  }

  // Spans of a server at the same time stand on rows of their own: each on the first row that is
  // free.
  void AssignServingThreads(size_t replica) {
    std::vector<const Span*> serving;
    for (const Span& span : profiles_[replica].spans) {
      if (LookOf(span.kind).thread == kFirstServing) serving.push_back(&span);
    }
    std::ranges::sort(serving, {}, [](const Span* span) { return std::pair(span->start, span); });
    std::vector<int64_t> free_from;
    for (const Span* span : serving) {
      auto row = std::ranges::find_if(free_from, [&](int64_t free) { return free <= span->start; });
      if (row == free_from.end()) {
        row = free_from.insert(row, 0);
        NameThread(replica, kFirstServing + static_cast<int>(free_from.size()) - 1, fmt::format("serving {}", free_from.size()));
      }
      *row = std::max(span->end, span->start + 1);
      serving_thread_[span] = kFirstServing + static_cast<int>(row - free_from.begin());
    }
  }

  int ThreadOf(size_t replica, const Span& span) const {
    const auto serving = serving_thread_.find(&span);
    if (serving != serving_thread_.end()) return serving->second;
    if (span.kind == SpanKind::kNode && devices_[replica] > 1) return kFirstDevice + profiles_[replica].operators[span.id].device;
    const bool own_row = span.kind == SpanKind::kStage || span.kind == SpanKind::kBucket;
    return LookOf(span.kind).thread + (own_row ? span.id : 0);
  }

  void AddSpan(size_t replica, const Span& span) {
    if (span.kind == SpanKind::kArrived) return;
    const ReplicaProfile& profile = profiles_[replica];
    const Look look = LookOf(span.kind);
    json args = {{"step", span.step}};
    std::string name = look.verb;
    if (span.kind == SpanKind::kNode) {
      const OperatorInfo& node = profile.operators[span.id];
      name = node.name;
      args["kind"] = node.kind;
      args["flops"] = node.flops;
      args["bytes"] = node.bytes;
    } else if (span.kind == SpanKind::kStage) {
      name = profile.stages[span.id];
    } else if (span.id >= 0) {
      name += profile.tensors[span.id];
    }
    if (span.worker >= 0) args["worker"] = span.worker;
    const int64_t at = At(replica, span.start);
    const int64_t duration = span.end - span.start;
    events_.push_back({at, duration, events_.size(),
                       Line({{"name", name},
                             {"cat", look.category},
                             {"ph", "X"},
                             {"ts", Micros(at)},
                             {"dur", Micros(duration)},
                             {"pid", Pid(replica)},
                             {"tid", ThreadOf(replica, span)},
                             {"args", std::move(args)}})});
  }

  void AddArrow(const char* phase, int id, const std::string& tensor, size_t replica, const Span& span) {
    const int64_t at = At(replica, span.start);
    json event = {{"name", tensor},
                  {"cat", "gradient"},
                  {"ph", phase},
                  {"id", id},
                  {"ts", Micros(at)},
                  {"pid", Pid(replica)},
                  {"tid", ThreadOf(replica, span)}};
    if (*phase == 'f') event["bp"] = "e";  // ends at the span around it, not at the next one
    events_.push_back({at, 0, events_.size(), Line(event)});
  }

  const std::span<const ReplicaProfile> profiles_;
  const std::span<const ClockOffset> offsets_;
  std::vector<int> devices_;  // by replica
  int64_t origin_ = std::numeric_limits<int64_t>::max();
  int next_flow_ = 1;
  std::map<const Span*, int> serving_thread_;
  std::vector<std::string> metadata_;
  std::vector<Event> events_;
};

}  // namespace

std::string ChromeTrace(std::span<const ReplicaProfile> profiles, std::span<const Exchange> exchanges,
                        std::span<const ClockOffset> offsets) {
  TraceMaker maker(profiles, offsets);
  for (size_t replica = 0; replica < profiles.size(); ++replica) maker.AddReplica(replica);
  for (const Exchange& exchange : exchanges) maker.AddFlow(exchange);
  return maker.Text();
}

}  // namespace trainyard::engine
