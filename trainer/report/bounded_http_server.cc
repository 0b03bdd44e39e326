#include "trainer/report/bounded_http_server.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "trainer/base/clock.h"

namespace trainyard::engine {
namespace {

// A socket whose reads and writes all end by one deadline, and which a request can be read from but
// no more.
class DeadlineStream final : public httplib::Stream {
 public:
  DeadlineStream(socket_t socket, absl::Time deadline) : socket_(socket), deadline_(deadline) {}

  bool is_readable() const override { return Ready(POLLIN); }
  bool is_writable() const override { return Ready(POLLOUT); }
  ssize_t read(char* bytes, size_t size) override {
    if (unread_ == 0 || !Ready(POLLIN)) return -1;
    const ssize_t count = ::recv(socket_, bytes, std::min(size, unread_), 0);
    if (count > 0) unread_ -= static_cast<size_t>(count);
    return count;
  }
  ssize_t write(const char* bytes, size_t size) override { return Ready(POLLOUT) ? ::send(socket_, bytes, size, MSG_NOSIGNAL) : -1; }
  void get_remote_ip_and_port(std::string& ip, int& port) const override {
    ip.clear();  // nobody here asks whose request it is
    port = 0;
  }
  void get_local_ip_and_port(std::string& ip, int& port) const override { get_remote_ip_and_port(ip, port); }
  socket_t socket() const override { return socket_; }

 private:
  bool Ready(int16_t event) const {
    while (true) {
      const absl::Duration left = deadline_ - RealClock().Now();
      if (left <= absl::ZeroDuration()) return false;  // also where the client goes on sending
      pollfd polled{.fd = socket_, .events = event, .revents = 0};
      const int ready = ::poll(&polled, 1, 1 + static_cast<int>(absl::ToInt64Milliseconds(left)));
      if (ready >= 0 || errno != EINTR) return ready > 0;
    }
  }

  const socket_t socket_;
  const absl::Time deadline_;
  size_t unread_ = BoundedHttpServer::kMostRequestBytes;
};

// One thread for each connection, up to a bound; the library's only other choice is a fixed number.
class ConnectionThreads final : public httplib::TaskQueue {
 public:
  explicit ConnectionThreads(size_t most) : most_(most) {}

  void enqueue(std::function<void()> connection) override {
    absl::MutexLock lock(&mutex_);
    const auto room = [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return waiting_.size() < most_ || ending_; };
    mutex_.Await(absl::Condition(&room));  // each one ends by its deadline
    waiting_.push_back(std::move(connection));
    if (idle_ >= waiting_.size() || threads_.size() >= most_) return;
    try {
      threads_.emplace_back([this] { Serve(); });
    } catch (const std::system_error&) {  // those that there are serve it later
      if (threads_.empty()) throw;
    }
  }

  void shutdown() override {
    {
      absl::MutexLock lock(&mutex_);
      ending_ = true;
    }
    for (std::thread& thread : threads_) thread.join();
  }

 private:
  void Serve() {
    const auto due = [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return !waiting_.empty() || ending_; };
    while (true) {
      std::function<void()> connection;
      {
        absl::MutexLock lock(&mutex_);
        ++idle_;
        mutex_.Await(absl::Condition(&due));
        --idle_;
        if (waiting_.empty()) return;
        connection = std::move(waiting_.front());
        waiting_.pop_front();
      }
      connection();
    }
  }

  const size_t most_;
  absl::Mutex mutex_;
  std::deque<std::function<void()>> waiting_ ABSL_GUARDED_BY(mutex_);
  size_t idle_ ABSL_GUARDED_BY(mutex_) = 0;
  bool ending_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;  // of the thread that accepts
};

}  // namespace

BoundedHttpServer::BoundedHttpServer() {
  new_task_queue = [] { return new ConnectionThreads(kMostConnections); };
}

bool BoundedHttpServer::process_and_close_socket(socket_t socket) {
  DeadlineStream stream(socket, RealClock().Now() + absl::Milliseconds(kConnectionDeadlineMs));
  bool closed = false;
  const bool answered = process_request(stream, /*close_connection=*/true, closed, nullptr);
  ::shutdown(socket, SHUT_RDWR);
  ::close(socket);
  return answered;
}

}  // namespace trainyard::engine
