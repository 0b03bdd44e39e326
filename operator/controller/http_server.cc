#include "operator/controller/http_server.h"

#include <fmt/format.h>
#include <httplib.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>
#include <spdlog/spdlog.h>

#include <chrono>
#include <exception>
#include <sstream>
#include <thread>
#include <utility>
#include <vector>

namespace trainyard::control {
namespace {

constexpr int kThreads = 2;
constexpr time_t kIoSeconds = 5;
constexpr size_t kMaxRequestBytes = 64 << 10;

using Checks = std::vector<std::pair<std::string, HealthCheck>>;

// As kube-apiserver's verbose form: one line per check.
void AnswerChecks(const Checks& checks, httplib::Response& response) {
  std::string text;
  bool all = true;
  for (const auto& [name, check] : checks) {
    const absl::Status status = check();
    all = all && status.ok();
    text += status.ok() ? fmt::format("[+]{} ok\n", name) : fmt::format("[-]{} failed: {}\n", name, std::string(status.message()));
  }
  response.status = all ? 200 : 503;
  response.set_content(text + (all ? "ok\n" : "not ok\n"), "text/plain; charset=utf-8");
}

}  // namespace

struct HttpServer::Server {
  HttpServerOptions options;
  Checks liveness;
  Checks readiness;
  httplib::Server http;
  std::thread thread;
};

HttpServer::HttpServer(HttpServerOptions options) : server_(std::make_unique<Server>()) {
  server_->options = std::move(options);
  httplib::Server& http = server_->http;
  http.new_task_queue = [] { return new httplib::ThreadPool(kThreads); };
  // Not httplib's default, which would let two processes share the port and each see half of the requests.
  http.set_socket_options([](socket_t socket) {
    const int yes = 1;
    setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  });
  http.set_read_timeout(kIoSeconds);
  http.set_write_timeout(kIoSeconds);
  http.set_keep_alive_timeout(kIoSeconds);
  http.set_payload_max_length(kMaxRequestBytes);
  http.set_exception_handler([](const httplib::Request& request, httplib::Response& response, std::exception_ptr exception) {
    response.status = 500;
    try {
      std::rethrow_exception(std::move(exception));
    } catch (const std::exception& error) {
      spdlog::error("GET {}: {}", request.path, error.what());
      response.set_content("internal error; see the operator's log\n", "text/plain; charset=utf-8");
    }
  });
  http.Get("/healthz", [this](const httplib::Request&, httplib::Response& response) { AnswerChecks(server_->liveness, response); });
  http.Get("/readyz", [this](const httplib::Request&, httplib::Response& response) { AnswerChecks(server_->readiness, response); });
}

HttpServer::~HttpServer() { Stop(); }

void HttpServer::AddLiveness(std::string name, HealthCheck check) { server_->liveness.emplace_back(std::move(name), std::move(check)); }

void HttpServer::AddReadiness(std::string name, HealthCheck check) { server_->readiness.emplace_back(std::move(name), std::move(check)); }

void HttpServer::ServeMetrics(std::shared_ptr<prometheus::Registry> registry) {
  server_->http.Get("/metrics", [registry = std::move(registry)](const httplib::Request&, httplib::Response& response) {
    std::ostringstream text;
    prometheus::TextSerializer().Serialize(text, registry->Collect());
    response.set_content(text.str(), "text/plain; version=0.0.4; charset=utf-8");
  });
}

void HttpServer::AddPage(std::string pattern, PageHandler handler) {
  server_->http.Get(pattern, [handler = std::move(handler)](const httplib::Request& request, httplib::Response& response) {
    std::map<std::string, std::string> query;
    for (const auto& [key, value] : request.params) query.emplace(key, value);
    const HttpPage page = handler(request.path, query);
    response.status = page.code;
    response.set_content(page.body, page.content_type);
  });
}

absl::StatusOr<int> HttpServer::Start() {
  const HttpServerOptions& options = server_->options;
  int port = options.port;
  if (port == 0) {
    port = server_->http.bind_to_any_port(options.host);
    if (port <= 0) return absl::UnavailableError(fmt::format("http server: no free port on {}", options.host));
  } else if (!server_->http.bind_to_port(options.host, port)) {
    return absl::UnavailableError(fmt::format("http server: cannot listen on {}:{}; is the port in use?", options.host, port));
  }
  server_->thread = std::thread([this] { server_->http.listen_after_bind(); });
  // Stop() has no effect on a server that does not run yet.
  for (int i = 0; i < 5000 && !server_->http.is_running(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return port;
}

void HttpServer::Stop() {
  if (!server_->thread.joinable()) return;
  server_->http.stop();
  server_->thread.join();
}

}  // namespace trainyard::control
