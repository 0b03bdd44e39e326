#include "operator/controller/http_server.h"

#include <fmt/format.h>
#include <microhttpd.h>
#include <netdb.h>
#include <netinet/in.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <list>
#include <sstream>
#include <string_view>
#include <utility>
#include <vector>

#include "operator/base/clock.h"
#include "operator/controller/event_streams.h"

namespace trainyard::control {
namespace {

constexpr size_t kBytesPerConnection = 16 << 10;  // of a request's line and headers, and of the answer's headers
constexpr unsigned kBeyondMaximum = 64;           // connections that are being closed are not gone at once
constexpr absl::Duration kMetricsAge = absl::Milliseconds(250);
constexpr char kText[] = "text/plain; charset=utf-8";
constexpr char kMetricsText[] = "text/plain; version=0.0.4; charset=utf-8";

using Checks = std::vector<std::pair<std::string, HealthCheck>>;

struct FreeResponse {
  void operator()(MHD_Response* response) const { MHD_destroy_response(response); }
};
// Counted by libmicrohttpd: connections that still send it keep it.
using Response = std::unique_ptr<MHD_Response, FreeResponse>;

Response MakeResponse(const std::string& body, const char* content_type) {
  Response response(MHD_create_response_from_buffer(body.size(), const_cast<char*>(body.data()), MHD_RESPMEM_MUST_COPY));
  MHD_add_response_header(response.get(), MHD_HTTP_HEADER_CONTENT_TYPE, content_type);
  return response;
}

// Sends the shared text itself: a big one that many read is in memory once.
Response MakeSharedResponse(const std::shared_ptr<const std::string>& body) {
  if (body == nullptr) return Response(MHD_create_response_from_buffer(0, nullptr, MHD_RESPMEM_PERSISTENT));
  using Holder = std::shared_ptr<const std::string>;
  const auto release = [](void* holder) { delete static_cast<Holder*>(holder); };
  auto* holder = new Holder(body);
  Response response(MHD_create_response_from_buffer_with_free_callback_cls(body->size(), const_cast<char*>(body->data()), release, holder));
  if (response == nullptr) delete holder;
  return response;
}

// As kube-apiserver's verbose form: one line per check.
std::pair<unsigned, Response> AnswerChecks(const Checks& checks) {
  std::string text;
  bool all = true;
  for (const auto& [name, check] : checks) {
    const absl::Status status = check();
    all = all && status.ok();
    text += status.ok() ? fmt::format("[+]{} ok\n", name) : fmt::format("[-]{} failed: {}\n", name, std::string(status.message()));
  }
  return {all ? MHD_HTTP_OK : MHD_HTTP_SERVICE_UNAVAILABLE, MakeResponse(text + (all ? "ok\n" : "not ok\n"), kText)};
}

class Socket {
 public:
  explicit Socket(int fd = -1) : fd_(fd) {}
  Socket(Socket&& other) noexcept : fd_(other.Release()) {}
  Socket& operator=(Socket&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Socket() {
    if (fd_ >= 0) close(fd_);
  }
  int Get() const { return fd_; }
  int Release() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

// A socket that listens, without SO_REUSEPORT: with it two processes could share the port, each
// seeing half of the requests.
absl::StatusOr<Socket> Listen(const std::string& host, int port) {
  const auto problem = [&](const char* text) {
    return absl::UnavailableError(fmt::format("http server: cannot listen on {}:{}: {}", host, port, text));
  };
  addrinfo wanted{};
  wanted.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  wanted.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (const int code = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &wanted, &found); code != 0)
    return problem(gai_strerror(code));
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> address(found, &freeaddrinfo);
  Socket listener(socket(address->ai_family, address->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, address->ai_protocol));
  const int yes = 1;
  setsockopt(listener.Get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  if (bind(listener.Get(), address->ai_addr, address->ai_addrlen) != 0 || listen(listener.Get(), SOMAXCONN) != 0) {
    return problem(std::strerror(errno));
  }
  return listener;
}

int PortOf(const Socket& listener) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  getsockname(listener.Get(), reinterpret_cast<sockaddr*>(&address), &size);
  return ntohs(address.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6*>(&address)->sin6_port
                                             : reinterpret_cast<sockaddr_in*>(&address)->sin_port);
}

}  // namespace

// But for configuration and Stop everything here is the event loop's thread's.
struct HttpServer::Server {
  struct Client {
    int socket;
    absl::Duration since;
    bool streams = false;
  };
  using Place = std::list<Client>::iterator;

  explicit Server(HttpServerOptions options) : options(std::move(options)), streams({.most = this->options.max_streams}) {}

  const HttpServerOptions options;
  Checks liveness;
  Checks readiness;
  std::shared_ptr<prometheus::Registry> registry;
  PageHandler pages;
  EventStreams streams;
  MHD_Daemon* daemon = nullptr;
  std::list<Client> clients;  // oldest first
  Response metrics;
  absl::Duration metrics_made = -absl::InfiniteDuration();

  MHD_Response* Metrics() {
    const absl::Duration now = RealClock().Monotonic();
    if (now - metrics_made >= kMetricsAge) {
      std::ostringstream text;
      prometheus::TextSerializer().Serialize(text, registry->Collect());
      metrics = MakeResponse(text.str(), kMetricsText);
      metrics_made = now;
    }
    return metrics.get();
  }

  MHD_Result Answer(MHD_Connection* connection, std::string_view path, std::string_view method) {
    if (method != "GET" && method != "HEAD") {
      return MHD_queue_response(connection, MHD_HTTP_METHOD_NOT_ALLOWED, MakeResponse("only GET and HEAD\n", kText).get());
    }
    if (path == "/metrics" && registry != nullptr) return MHD_queue_response(connection, MHD_HTTP_OK, Metrics());
    if (path == "/healthz" || path == "/readyz") {
      const auto [code, response] = AnswerChecks(path == "/healthz" ? liveness : readiness);
      return MHD_queue_response(connection, code, response.get());
    }
    if (pages != nullptr) return AnswerPage(connection, path);
    return MHD_queue_response(connection, MHD_HTTP_NOT_FOUND, MakeResponse("not found\n", kText).get());
  }

  MHD_Result AnswerPage(MHD_Connection* connection, std::string_view path) {
    const auto text = [&](MHD_ValueKind kind, const char* name) {
      const char* value = MHD_lookup_connection_value(connection, kind, name);
      return value == nullptr ? std::string_view() : std::string_view(value);
    };
    PageAnswer answer =
        pages({.path = path, .host = text(MHD_HEADER_KIND, MHD_HTTP_HEADER_HOST), .watch = text(MHD_GET_ARGUMENT_KIND, "watch") == "true"});
    Response response;
    if (answer.events == nullptr) {
      response = MakeSharedResponse(answer.body);
    } else {
      response.reset(streams.Open(connection, std::move(answer.events)));
      if (response == nullptr) {
        response =
            MakeResponse(fmt::format("{} streams are open, and no more are allowed: ask without watch=true\n", options.max_streams), kText);
        MHD_add_response_header(response.get(), MHD_HTTP_HEADER_RETRY_AFTER, "10");
        return MHD_queue_response(connection, MHD_HTTP_SERVICE_UNAVAILABLE, response.get());
      }
      (*PlaceOf(connection))->streams = true;
      MHD_add_response_header(response.get(), MHD_HTTP_HEADER_CONNECTION, "close");
    }
    MHD_add_response_header(response.get(), MHD_HTTP_HEADER_CONTENT_TYPE, answer.content_type.c_str());
    for (const auto& [name, value] : answer.headers) MHD_add_response_header(response.get(), name.c_str(), value.c_str());
    return MHD_queue_response(connection, answer.code, response.get());
  }

  static Place* PlaceOf(MHD_Connection* connection) {
    return static_cast<Place*>(MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT)->socket_context);
  }

  // Called when the headers are in, and again when the request has ended. A body is not waited for:
  // the connection closes after the answer.
  static MHD_Result OnRequest(void* self, MHD_Connection* connection, const char* path, const char* method, const char* /*version*/,
                              const char* /*body*/, size_t* body_bytes, void** state) {
    if (*body_bytes > 0) return MHD_NO;
    const bool has_body = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_CONTENT_LENGTH) != nullptr ||
                          MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_TRANSFER_ENCODING) != nullptr;
    if (std::exchange(*state, self) == nullptr && !has_body) return MHD_YES;
    return static_cast<Server*>(self)->Answer(connection, path, method);
  }

  static void OnConnection(void* self, MHD_Connection* connection, void** state, MHD_ConnectionNotificationCode code) {
    auto& server = *static_cast<Server*>(self);
    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
      const int socket = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
      server.MakeRoom();
      server.clients.push_back({socket, RealClock().Monotonic()});
      *state = new Place(std::prev(server.clients.end()));
      return;
    }
    const std::unique_ptr<Place> place(static_cast<Place*>(*state));
    server.clients.erase(*place);
  }

  // The event loop sees the end of a connection that is shut down, and closes it.
  void MakeRoom() {
    const absl::Duration oldest = RealClock().Monotonic() - options.longest;
    size_t left = clients.size();
    for (const Client& client : clients) {
      if (left < options.max_connections && client.since >= oldest) break;
      if (client.streams) continue;  // they end by themselves
      shutdown(client.socket, SHUT_RDWR);
      --left;
    }
  }
};

HttpServer::HttpServer(HttpServerOptions options) : server_(std::make_unique<Server>(std::move(options))) {}

HttpServer::~HttpServer() { Stop(); }

void HttpServer::AddLiveness(std::string name, HealthCheck check) { server_->liveness.emplace_back(std::move(name), std::move(check)); }

void HttpServer::AddReadiness(std::string name, HealthCheck check) { server_->readiness.emplace_back(std::move(name), std::move(check)); }

void HttpServer::ServeMetrics(std::shared_ptr<prometheus::Registry> registry) { server_->registry = std::move(registry); }

void HttpServer::ServePages(PageHandler pages) { server_->pages = std::move(pages); }

void HttpServer::Wake() { server_->streams.Wake(); }

absl::StatusOr<int> HttpServer::Start() {
  const HttpServerOptions& options = server_->options;
  absl::StatusOr<Socket> listener = Listen(options.host, options.port);
  if (!listener.ok()) return listener.status();
  const int port = PortOf(*listener);
  server_->daemon = MHD_start_daemon(
      MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME, 0, nullptr, nullptr, &Server::OnRequest, server_.get(),
      MHD_OPTION_LISTEN_SOCKET, listener->Get(), MHD_OPTION_NOTIFY_CONNECTION, &Server::OnConnection, server_.get(),
      MHD_OPTION_CONNECTION_LIMIT, options.max_connections + kBeyondMaximum, MHD_OPTION_CONNECTION_MEMORY_LIMIT, kBytesPerConnection,
      MHD_OPTION_CONNECTION_TIMEOUT, static_cast<unsigned>(absl::ToInt64Seconds(options.silence)), MHD_OPTION_END);
  if (server_->daemon == nullptr) return absl::UnavailableError(fmt::format("http server: no event loop on {}:{}", options.host, port));
  listener->Release();  // the daemon closes it
  return port;
}

void HttpServer::Stop() {
  if (server_->daemon == nullptr) return;
  server_->streams.Stop();
  MHD_stop_daemon(std::exchange(server_->daemon, nullptr));
}

}  // namespace trainyard::control
