#include "trainer/report/bounded_http_server.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "trainer/base/clock.h"
#include "trainer/base/printable.h"
#include "trainer/report/chunked_body.h"

namespace trainyard::engine {
namespace {

constexpr absl::Duration kLook = absl::Milliseconds(50);  // how often a connection that waits sees whether others do, or the server ends
constexpr absl::Duration kFirstSilence = absl::Milliseconds(500);  // of a new connection, while others wait
constexpr absl::Duration kStartTimeout = absl::Seconds(10);
constexpr absl::Duration kRestDeadline = absl::Seconds(1);
constexpr int kMostRequests = 1 << 20;  // what a client is told

// The library's own choice, SO_REUSEPORT, would let a second process share the port in silence.
void ReuseAddressOnly(int socket) {
  const int yes = 1;
  ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
}

// Whether `socket` is ready by `deadline`.
bool AwaitSocket(socket_t socket, int16_t event, absl::Time deadline) {
  while (true) {
    const absl::Duration left = deadline - RealClock().Now();
    if (left <= absl::ZeroDuration()) return false;  // also where the client goes on sending
    pollfd polled{.fd = socket, .events = event, .revents = 0};
    const int ready = ::poll(&polled, 1, 1 + static_cast<int>(absl::ToInt64Milliseconds(left)));
    if (ready >= 0 || errno != EINTR) return ready > 0;
  }
}

// A socket whose reads and writes end by the deadlines of a request, and which no more than a
// request's bytes can be read from.
class DeadlineStream final : public httplib::Stream {
 public:
  // `ending`: the server is about to end.
  DeadlineStream(socket_t socket, const HttpBounds& bounds, std::function<bool()> ending)
      : socket_(socket), bounds_(bounds), ending_(std::move(ending)) {}

  // A request begins.
  void Begin() {
    read_by_ = RealClock().Now() + bounds_.read_deadline;
    unread_ = bounds_.request_bytes;
  }
  // What is read next, before what comes from the socket.
  void Return(std::string bytes) {
    returned_ = std::move(bytes);
    returned_read_ = 0;
  }
  // The request has as many bytes as one may have.
  bool spent() const { return unread_ == 0; }
  // Nothing of another request has come, as far as is known.
  bool empty() const { return begin_ == end_; }
  // A read has failed: the bytes that follow are not a request.
  bool broken() const { return broken_; }

  bool is_readable() const override { return returned_read_ < returned_.size() || !empty() || AwaitBytes(); }
  bool is_writable() const override { return AwaitSocket(socket_, POLLOUT, write_by()); }
  ssize_t read(char* bytes, size_t size) override {
    if (const size_t count = returned_.copy(bytes, size, returned_read_); count > 0) {
      returned_read_ += count;
      return static_cast<ssize_t>(count);
    }
    const size_t count = std::min({size, unread_, empty() ? Fill() : end_ - begin_});
    broken_ = broken_ || count == 0;
    if (count == 0) return -1;
    std::memcpy(bytes, &buffer_[begin_], count);
    begin_ += count;
    unread_ -= count;
    return static_cast<ssize_t>(count);
  }
  ssize_t write(const char* bytes, size_t size) override {
    while (AwaitSocket(socket_, POLLOUT, write_by())) {
      const ssize_t count = ::send(socket_, bytes, size, MSG_NOSIGNAL | MSG_DONTWAIT);
      if (count >= 0 || (errno != EAGAIN && errno != EINTR)) return count;
    }
    return -1;
  }
  void get_remote_ip_and_port(std::string& ip, int& port) const override {
    ip.clear();  // nobody here asks whose request it is
    port = 0;
  }
  void get_local_ip_and_port(std::string& ip, int& port) const override { get_remote_ip_and_port(ip, port); }
  socket_t socket() const override { return socket_; }

 private:
  absl::Time write_by() const { return read_by_ + bounds_.answer_deadline; }
  // A server that is about to end waits for the rest of a request a little longer.
  bool AwaitBytes() const {
    const absl::Time begin = RealClock().Now();
    while (true) {
      const absl::Time now = RealClock().Now();
      if (AwaitSocket(socket_, POLLIN, std::min(read_by_, now + kLook))) return true;
      if (now + kLook >= read_by_ || (ending_() && now > begin + kRestDeadline)) return false;
    }
  }
  // The bytes that came, at least one; 0: none by the deadline, or the client is gone.
  size_t Fill() {
    begin_ = end_ = 0;
    if (unread_ == 0 || !AwaitBytes()) return 0;
    const ssize_t count = ::recv(socket_, buffer_.data(), buffer_.size(), 0);
    if (count > 0) end_ = static_cast<size_t>(count);
    return end_;
  }

  const socket_t socket_;
  const HttpBounds& bounds_;
  const std::function<bool()> ending_;
  absl::Time read_by_;
  size_t unread_ = 0;
  std::string returned_;
  size_t returned_read_ = 0;
  bool broken_ = false;
  std::array<char, 16 << 10> buffer_;
  size_t begin_ = 0;  // of what was received and not read
  size_t end_ = 0;
};

// Whether the library reads all of the request as it is, so that another one can follow. It does
// not read a body of GET, believes the first of two lengths, and unpacks a body without a bound.
bool IsPlain(const httplib::Request& request) {
  if (request.target.size() > BoundedHttpServer::kMostTargetBytes) return false;
  const size_t lengths = request.get_header_value_count("Content-Length");
  const size_t encodings = request.get_header_value_count("Transfer-Encoding");
  if (request.method != "POST") return lengths + encodings == 0;
  return lengths + encodings == 1 && !request.has_header("Content-Encoding") && !request.is_multipart_form_data();
}

// Beside the names of a client's headers, as the library's own REMOTE_ADDR.
constexpr char kRefusal[] = "REFUSAL";

using Refusal = BoundedHttpServer::Refusal;

// Whether the words about a body's length can be believed.
std::optional<Refusal> RefusalOfLength(const httplib::Request& request, size_t most) {
  const std::string length = request.get_header_value("Content-Length");
  const std::string encoding = request.get_header_value("Transfer-Encoding");
  if (!encoding.empty() && !absl::EqualsIgnoreCase(encoding, "chunked")) {
    return Refusal{501, fmt::format("header Transfer-Encoding: found \"{}\", expected chunked", Printable(encoding.substr(0, 60)))};
  }
  if (length.empty()) return std::nullopt;
  uint64_t bytes = 0;
  const bool digits = std::ranges::all_of(length, [](char c) { return c >= '0' && c <= '9'; });
  if (!digits) {
    return Refusal{400, fmt::format("header Content-Length: found \"{}\", expected a number of bytes", Printable(length.substr(0, 60)))};
  }
  if (!absl::SimpleAtoi(length, &bytes) || bytes > most) {
    return Refusal{413, fmt::format("the body: found {} bytes, expected at most {}", length.substr(0, 20), most)};
  }
  return std::nullopt;
}

// The chunked body of a request becomes one with a length, so that the library need not read it.
std::optional<Refusal> ReadChunks(httplib::Request& request, size_t most, DeadlineStream& stream) {
  constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
  if (request.headers.erase("Expect") > 0) stream.write(kContinue.data(), kContinue.size());
  std::string body;
  const ChunkedRead read = ReadChunkedBody(stream, most, body);
  if (read == ChunkedRead::kTooLong || stream.spent()) {
    return Refusal{413, fmt::format("the body: found more than {} bytes, expected at most so many", most)};
  }
  if (read == ChunkedRead::kBroken) {
    return Refusal{400, "the body: found a chunk, or what should be one, that cannot be read; expected chunks as RFC 9112 has them"};
  }
  request.headers.erase("Transfer-Encoding");
  request.headers.emplace("Content-Length", std::to_string(body.size()));
  stream.Return(std::move(body));
  return std::nullopt;
}

// Takes `most` bytes that the client still sends, for a moment: it would not read the answer
// otherwise.
void TakeRest(socket_t socket, size_t most) {
  ::shutdown(socket, SHUT_WR);
  std::array<char, 16 << 10> rest;
  const absl::Time until = RealClock().Now() + kRestDeadline;
  for (size_t taken = 0; taken < most && AwaitSocket(socket, POLLIN, until);) {
    const ssize_t count = ::recv(socket, rest.data(), rest.size(), 0);
    if (count <= 0) return;
    taken += static_cast<size_t>(count);
  }
}

}  // namespace

// One thread for each connection, up to a bound; the library's only other choice is a fixed number.
class BoundedHttpServer::Connections final : public httplib::TaskQueue {
 public:
  Connections(std::atomic<Connections*>& place, size_t most) : place_(place), most_(most) { place_ = this; }
  ~Connections() override { place_ = nullptr; }

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

  // More connections wait than threads that are free.
  bool others_wait() const {
    absl::MutexLock lock(&mutex_);
    return waiting_.size() > idle_;
  }
  bool ending() const {
    absl::MutexLock lock(&mutex_);
    return ending_;
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

  std::atomic<Connections*>& place_;
  const size_t most_;
  mutable absl::Mutex mutex_;
  std::deque<std::function<void()>> waiting_ ABSL_GUARDED_BY(mutex_);
  size_t idle_ ABSL_GUARDED_BY(mutex_) = 0;
  bool ending_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;  // of the thread that accepts
};

BoundedHttpServer::BoundedHttpServer(const HttpBounds& bounds) : bounds_(bounds) {
  new_task_queue = [this] { return new Connections(connections_, static_cast<size_t>(bounds_.connections)); };
  set_keep_alive_max_count(kMostRequests);
  set_keep_alive_timeout(std::max<time_t>(1, static_cast<time_t>(absl::ToInt64Seconds(bounds_.idle))));
  set_socket_options(ReuseAddressOnly);
}

BoundedHttpServer::~BoundedHttpServer() {
  stop();
  if (thread_.joinable()) thread_.join();
}

absl::Status BoundedHttpServer::Start(std::string_view what, const std::string& host, int port) {
  errno = 0;
  port_ = port == 0 ? bind_to_any_port(host) : (bind_to_port(host, port) ? port : -1);
  if (port_ <= 0) {
    return absl::UnavailableError(fmt::format("cannot serve {} on {}:{}: {}; give it another port", what, host, port,
                                              errno != 0 ? std::strerror(errno) : "the address is not available"));
  }
  thread_ = std::thread([this] { listen_after_bind(); });
  // Until it accepts, stop() would have no effect; this takes microseconds.
  for (const absl::Time deadline = RealClock().Now() + kStartTimeout; !is_running();) {
    if (RealClock().Now() > deadline) return absl::DeadlineExceededError(fmt::format("the thread of {} did not start", what));
    std::this_thread::yield();
  }
  return absl::OkStatus();
}

std::optional<BoundedHttpServer::Refusal> BoundedHttpServer::RefusalOf(const httplib::Request& request) {
  const std::string text = request.get_header_value(kRefusal);
  Refusal refusal;
  if (text.empty() || !absl::SimpleAtoi(text.substr(0, text.find(' ')), &refusal.status)) return std::nullopt;
  refusal.why = text.substr(text.find(' ') + 1);
  return refusal;
}

bool BoundedHttpServer::AwaitRequest(socket_t socket, bool first) const {
  const Connections& connections = *connections_.load();  // this is one of its threads
  const absl::Time begin = RealClock().Now();
  const absl::Time until = begin + (first ? bounds_.read_deadline : bounds_.idle);
  while (true) {
    const absl::Time now = RealClock().Now();
    if (AwaitSocket(socket, POLLIN, std::min(until, now + kLook))) return true;
    const bool makes_room = connections.others_wait() && (!first || now > begin + kFirstSilence);
    if (now + kLook >= until || makes_room || connections.ending()) return false;
  }
}

bool BoundedHttpServer::process_and_close_socket(socket_t socket) {
  DeadlineStream stream(socket, bounds_, [this] { return connections_.load()->ending(); });
  const bool once = bounds_.idle <= absl::ZeroDuration();
  bool answered = true;
  bool refused = false;
  for (bool last = false, first = true; !last && answered && !stream.broken(); first = false) {
    if (stream.empty() && !AwaitRequest(socket, first)) break;
    stream.Begin();
    last = once;
    bool closed = false;
    bool parsed = false;
    answered = process_request(stream, once, closed, [&](httplib::Request& request) {
      parsed = true;
      request.headers.erase(kRefusal);
      refused = !IsPlain(request);
      if (!refused) {
        std::optional<Refusal> refusal = RefusalOfLength(request, bounds_.body_bytes);
        if (!refusal && request.has_header("Transfer-Encoding")) refusal = ReadChunks(request, bounds_.body_bytes, stream);
        refused = refusal.has_value();
        if (refusal) request.headers.emplace(kRefusal, fmt::format("{} {}", refusal->status, refusal->why));
      }
      if (refused) request.headers.erase("Expect");  // the body is not wanted
      last = last || refused || connections_.load()->ending();
      if (last) {
        request.headers.erase("Connection");
        request.headers.emplace("Connection", "close");
      }
      request.headers.erase("Accept-Encoding");  // the library would pack answers at its slowest
      request.headers.erase("Range");
      request.ranges.clear();
    });
    refused = refused || (answered && !parsed);
    last = last || closed || refused;
  }
  if (refused || stream.broken()) TakeRest(socket, 4 * bounds_.request_bytes);
  ::shutdown(socket, SHUT_RDWR);
  ::close(socket);
  return answered;
}

}  // namespace trainyard::engine
