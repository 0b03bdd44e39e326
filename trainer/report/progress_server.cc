#include "trainer/report/progress_server.h"

#include <fmt/format.h>

#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "trainer/base/status_macros.h"
#include "trainer/report/bounded_http_server.h"

namespace trainyard::engine {
namespace {

constexpr size_t kMaxRequestBytes = 4096;

}  // namespace

struct ProgressServer::State {
  explicit State(ProgressServerOptions with) : options(std::move(with)) {
    server.set_payload_max_length(kMaxRequestBytes);
    server.Get("/progress", [this](const httplib::Request&, httplib::Response& response) {
      response.set_content(ProgressJson(Read()), "application/json");
    });
    server.Get("/metrics", [this](const httplib::Request&, httplib::Response& response) {
      response.set_content(ProgressMetrics(Read(), options.role, options.index), "text/plain; version=0.0.4");
    });
    server.Get("/healthz", [](const httplib::Request&, httplib::Response& response) { response.set_content("ok\n", "text/plain"); });
  }

  Progress Read() {
    absl::MutexLock lock(&mutex);
    return progress;
  }

  const ProgressServerOptions options;
  absl::Mutex mutex;
  Progress progress ABSL_GUARDED_BY(mutex);
  BoundedHttpServer server;  // last: its threads use all of the above
};

ProgressServer::ProgressServer(std::unique_ptr<State> state) : state_(std::move(state)) {}
ProgressServer::~ProgressServer() = default;

absl::StatusOr<std::unique_ptr<ProgressServer>> ProgressServer::Start(const ProgressServerOptions& options) {
  auto state = std::make_unique<State>(options);
  const std::string what = fmt::format("/progress of {} {}", options.role, options.index);
  TY_RETURN_IF_ERROR(state->server.Start(what, options.host, options.port));
  return std::unique_ptr<ProgressServer>(new ProgressServer(std::move(state)));
}

void ProgressServer::Update(Progress progress) {
  absl::MutexLock lock(&state_->mutex);
  state_->progress = std::move(progress);
}

int ProgressServer::port() const { return state_->server.port(); }

}  // namespace trainyard::engine
