#include "trainer/report/progress_server.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "trainer/base/clock.h"
#include "trainer/report/bounded_http_server.h"

namespace trainyard::engine {
namespace {

constexpr size_t kMaxRequestBytes = 4096;
constexpr absl::Duration kStartTimeout = absl::Seconds(10);

// The library's own choice, SO_REUSEPORT, would let a second process share the port in silence.
void ReuseAddressOnly(int socket) {
  const int yes = 1;
  ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
}

}  // namespace

struct ProgressServer::State {
  explicit State(ProgressServerOptions with) : options(std::move(with)) {
    server.set_socket_options(ReuseAddressOnly);
    server.set_payload_max_length(kMaxRequestBytes);
    server.Get("/progress", [this](const httplib::Request&, httplib::Response& response) {
      response.set_content(ProgressJson(Read()), "application/json");
    });
    server.Get("/metrics", [this](const httplib::Request&, httplib::Response& response) {
      response.set_content(ProgressMetrics(Read(), options.role, options.index), "text/plain; version=0.0.4");
    });
    server.Get("/healthz", [](const httplib::Request&, httplib::Response& response) { response.set_content("ok\n", "text/plain"); });
  }
  ~State() {
    server.stop();
    if (thread.joinable()) thread.join();
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  Progress Read() {
    absl::MutexLock lock(&mutex);
    return progress;
  }

  const ProgressServerOptions options;
  BoundedHttpServer server;
  int port = 0;
  absl::Mutex mutex;
  Progress progress ABSL_GUARDED_BY(mutex);
  std::thread thread;
};

ProgressServer::ProgressServer(std::unique_ptr<State> state) : state_(std::move(state)) {}
ProgressServer::~ProgressServer() = default;

absl::StatusOr<std::unique_ptr<ProgressServer>> ProgressServer::Start(const ProgressServerOptions& options) {
  auto state = std::make_unique<State>(options);
  errno = 0;
  state->port = options.port == 0 ? state->server.bind_to_any_port(options.host)
                                  : (state->server.bind_to_port(options.host, options.port) ? options.port : -1);
  if (state->port <= 0) {
    return absl::UnavailableError(fmt::format("cannot serve /progress of {} {} on {}:{}: {}; give it another port", options.role,
                                              options.index, options.host, options.port,
                                              errno != 0 ? std::strerror(errno) : "the address is not available"));
  }
  state->thread = std::thread([raw = state.get()] { raw->server.listen_after_bind(); });
  // Until it accepts, stop() would have no effect; this takes microseconds.
  for (const absl::Time deadline = RealClock().Now() + kStartTimeout; !state->server.is_running();) {
    if (RealClock().Now() > deadline) return absl::DeadlineExceededError("the thread of /progress did not start");
    std::this_thread::yield();
  }
  return std::unique_ptr<ProgressServer>(new ProgressServer(std::move(state)));
}

void ProgressServer::Update(Progress progress) {
  absl::MutexLock lock(&state_->mutex);
  state_->progress = std::move(progress);
}

int ProgressServer::port() const { return state_->port; }

}  // namespace trainyard::engine
