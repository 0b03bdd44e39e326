// The watches of the fake API server.
#include <chrono>

#include "tests/fake_apiserver/answers.h"
#include "tests/fake_apiserver/fake_api_server.h"
#include "tests/fake_apiserver/target.h"

namespace trainyard::control {

using Json = nlohmann::json;

absl::StatusOr<HttpResponse> FakeApiServer::Stream(const HttpRequest& request, absl::Duration idle,
                                                   const std::function<bool(std::string_view)>& on_data) {
  const Target target = ParseTarget(request);
  const absl::Duration began = clock_.Monotonic();
  absl::Duration heard_at = began;
  const int64_t seconds = target.Number("timeoutSeconds");
  int64_t position = target.Number("resourceVersion");
  std::optional<Fault> fault;
  int sent = 0;
  int64_t bookmarks = 0;
  {
    MutexLock lock(mutex_);
    if (crashed_) return Broken();
    ApiCall call{.verb = target.verb, .resource = target.Resource(), .ns = target.ns};
    const std::optional<Fault> refusal = FaultFor(target, /*of_open_watch=*/false);
    if (refusal.has_value()) {
      call.code = refusal->kind == Fault::Kind::kAnswer ? refusal->code : 0;
      calls_.push_back(call);
      if (call.code == 0) return Broken();
      HttpResponse response = Refusal(refusal->code, refusal->reason, "injected by the test");
      response.retry_after = refusal->retry_after;
      return response;
    }
    call.code = 200;
    calls_.push_back(call);
    if (position == 0) position = version_;
    bookmarks = bookmark_;
    ++open_watches_;
    changed_.NotifyAll();
  }
  struct Leave {
    FakeApiServer& server;
    ~Leave() {
      MutexLock lock(server.mutex_);
      --server.open_watches_;
      server.changed_.NotifyAll();
    }
  };
  const Leave leave{*this};

  while (true) {
    std::vector<std::string> lines;
    {
      MutexLock lock(mutex_);
      if (crashed_) return Broken();
      if (!fault.has_value()) {
        fault = FaultFor(target, /*of_open_watch=*/true);
        sent = 0;
      }
      Collection& collection = CollectionOf(target.collection);
      if (position < collection.compacted || (fault.has_value() && fault->kind == Fault::Kind::kExpireWatch)) {
        const Json status = Json::parse(Refusal(410, "Expired", "too old resource version").body);
        lines.push_back(Json({{"type", "ERROR"}, {"object", status}}).dump());
        position = version_;
        fault.reset();
      }
      for (const Change& change : collection.history) {
        if (change.version <= position) continue;
        position = change.version;
        const bool is = change.type != "DELETED" && Selected(target, change.object);
        const bool was = Selected(target, change.before);
        if (!is && !was) continue;
        const char* type = is ? (was ? "MODIFIED" : "ADDED") : "DELETED";
        lines.push_back(Json({{"type", type}, {"object", change.object}}).dump());
      }
      if (bookmarks != bookmark_) {
        bookmarks = bookmark_;
        position = version_;
        lines.push_back(Json({{"type", "BOOKMARK"}, {"object", {{"metadata", {{"resourceVersion", std::to_string(version_)}}}}}}).dump());
      }
      const bool acts = fault.has_value() && (!lines.empty() || sent >= fault->skip_events);
      if (lines.empty() && !acts) changed_.WaitFor(mutex_, std::chrono::milliseconds(5));
    }
    for (std::string& line : lines) {
      line += '\n';
      if (fault.has_value() && sent >= fault->skip_events) {
        if (fault->kind == Fault::Kind::kStallWatch) break;
      }
      ++sent;
      heard_at = clock_.Monotonic();
      // Two pieces, so that readers meet events cut in the middle.
      const std::string_view text = line;
      if (!on_data(text.substr(0, text.size() / 3)) || !on_data(text.substr(text.size() / 3)))
        return absl::CancelledError("the reader left");
    }
    if (fault.has_value() && sent >= fault->skip_events) {
      if (fault->kind == Fault::Kind::kDropWatch) return Broken();
      if (fault->kind == Fault::Kind::kGarbageWatch) {
        fault.reset();
        if (!on_data("\x01garbage\n")) return absl::CancelledError("the reader left");
      } else {
        MutexLock lock(mutex_);
        changed_.WaitFor(mutex_, std::chrono::milliseconds(5));
      }
    }
    if (request.stop.stop_requested()) return absl::CancelledError("stopping");
    const absl::Duration now = clock_.Monotonic();
    if (now - heard_at >= idle) return absl::DeadlineExceededError("silent for too long");
    if (now - began >= request.timeout) return absl::DeadlineExceededError("the watch took too long");
    const bool stalled = fault.has_value() && fault->kind == Fault::Kind::kStallWatch;
    if (seconds > 0 && now - began >= absl::Seconds(seconds) && !stalled) return HttpResponse{.code = 200};
  }
}

}  // namespace trainyard::control
