#include "operator/page/page_server.h"

#include <stop_token>

#include "operator/base/status_macros.h"
#include "operator/page/page_routes.h"

namespace trainyard::control {
namespace {

// Room for a few dozen people: each tab that is in front has one stream.
constexpr size_t kMaxStreams = 32;

}  // namespace

PageServer::PageServer(Clock& clock, const Lister<TrainingJob>& jobs, const Lister<Pod>& pods, PageOptions options)
    : clock_(clock),
      options_(std::move(options)),
      feed_(clock, jobs, pods),
      http_({.host = options_.host, .port = options_.port, .max_connections = 128, .max_streams = kMaxStreams}) {
  http_.ServePages(PageRoutes(feed_, options_.hosts));
}

absl::StatusOr<int> PageServer::Start() {
  TY_ASSIGN_OR_RETURN(const int port, http_.Start());
  looker_ = std::jthread([this](const std::stop_token& stop) {
    do {
      feed_.Look();
      http_.Wake();
    } while (SleepFor(clock_, options_.look_every, stop));
  });
  return port;
}

void PageServer::Stop() {
  looker_ = {};
  http_.Stop();
}

}  // namespace trainyard::control
