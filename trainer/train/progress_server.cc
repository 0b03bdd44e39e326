#include "trainer/train/progress_server.h"

#include <fmt/format.h>
#include <httplib.h>

#include <cerrno>
#include <cstring>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"

namespace trainyard::engine {
namespace {

constexpr size_t kThreads = 2;
constexpr time_t kTimeoutSeconds = 5;
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
    server.new_task_queue = [] { return new httplib::ThreadPool(kThreads); };
    server.set_socket_options(ReuseAddressOnly);
    server.set_read_timeout(kTimeoutSeconds);
    server.set_write_timeout(kTimeoutSeconds);
    server.set_payload_max_length(kMaxRequestBytes);
    // A client that keeps its connection would keep one of the two threads.
    server.set_keep_alive_max_count(1);
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
  httplib::Server server;
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
                                              errno != 0 ? std::strerror(errno) : "the address cannot be had"));
  }
  state->thread = std::thread([raw = state.get()] { raw->server.listen_after_bind(); });
  // Until it accepts, stop() would have no effect; this takes microseconds.
  for (const absl::Time deadline = absl::Now() + kStartTimeout; !state->server.is_running();) {
    if (absl::Now() > deadline) return absl::DeadlineExceededError("the thread of /progress did not start");
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
