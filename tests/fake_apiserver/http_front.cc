#include "tests/fake_apiserver/http_front.h"

#include <fmt/format.h>
#include <httplib.h>
#include <openssl/x509.h>

#include <chrono>
#include <mutex>
#include <stop_token>
#include <thread>
#include <utility>

#include "operator/base/check.h"
#include "operator/kube/pem.h"

namespace trainyard::control {
namespace {

// Watches hold a thread each.
constexpr int kThreads = 24;

std::unique_ptr<httplib::Server> MakeServer(const HttpFrontOptions& options) {
  if (!options.certificate.has_value()) return std::make_unique<httplib::Server>();
  const auto certificates = ParseCertificates(options.certificate->certificate_pem);
  const auto key = ParsePrivateKey(options.certificate->key_pem);
  TY_CHECK(certificates.ok() && key.ok());
  X509_STORE* clients = nullptr;
  if (!options.client_ca_pem.empty()) {
    const auto authorities = ParseCertificates(options.client_ca_pem);
    TY_CHECK(authorities.ok());
    clients = X509_STORE_new();
    X509_STORE_add_cert(clients, authorities->front().get());
  }
  return std::make_unique<httplib::SSLServer>(certificates->front().get(), key->get(), clients);
}

}  // namespace

struct HttpFront::Server {
  Transport& backend;
  HttpFrontOptions options;
  std::unique_ptr<httplib::Server> http;
  int port = 0;
  std::stop_source stop;
  std::mutex mutex;
  std::vector<std::string> tokens;  // guarded by mutex, as is options.token
  std::thread thread;

  bool Admit(const httplib::Request& request) {
    const std::string value = request.get_header_value("Authorization");
    const std::lock_guard lock(mutex);
    if (!value.empty()) tokens.push_back(value.substr(value.find(' ') + 1));
    return options.token.empty() || value == "Bearer " + options.token;
  }

  void Serve(const httplib::Request& request, httplib::Response& response) {
    if (!Admit(request)) {
      response.status = 401;
      response.set_content(R"({"kind":"Status","code":401,"reason":"Unauthorized","message":"Unauthorized"})", "application/json");
      return;
    }
    HttpRequest ask{.method = request.method,
                    .target = request.target,
                    .body = request.body,
                    .content_type = request.get_header_value("Content-Type"),
                    .accept = request.get_header_value("Accept"),
                    .timeout = absl::Hours(1),
                    .stop = stop.get_token()};
    if (request.has_param("watch")) {
      response.set_chunked_content_provider("application/json", [this, ask = std::move(ask)](size_t, httplib::DataSink& sink) {
        const auto end =
            backend.Stream(ask, absl::Hours(1), [&](std::string_view bytes) { return sink.write(bytes.data(), bytes.size()); });
        if (!end.ok()) return false;  // the connection breaks
        sink.done();
        return true;
      });
      return;
    }
    const auto answer = backend.Send(ask);
    if (!answer.ok()) {
      // No answer: promise a body, then break.
      response.set_content_provider(1000, "application/json", [](size_t, size_t, httplib::DataSink&) { return false; });
      return;
    }
    response.status = answer->code;
    if (!answer->retry_after.empty()) response.set_header("Retry-After", answer->retry_after);
    response.set_content(answer->body, "application/json");
  }
};

HttpFront::HttpFront(Transport& backend, HttpFrontOptions options) : server_(std::make_unique<Server>(backend, std::move(options))) {
  server_->http = MakeServer(server_->options);
  httplib::Server& http = *server_->http;
  TY_CHECK(http.is_valid());
  http.new_task_queue = [] { return new httplib::ThreadPool(kThreads); };
  http.set_tcp_nodelay(true);
  http.set_keep_alive_max_count(1000000);
  http.set_keep_alive_timeout(1);
  const auto serve = [this](const httplib::Request& request, httplib::Response& response) { server_->Serve(request, response); };
  http.Get(".*", serve);
  http.Post(".*", serve);
  http.Put(".*", serve);
  http.Patch(".*", serve);
  http.Delete(".*", serve);
  server_->port = server_->options.port;
  if (server_->port == 0) {
    server_->port = http.bind_to_any_port("127.0.0.1");
    TY_CHECK(server_->port > 0);
  } else {
    TY_CHECK(http.bind_to_port("127.0.0.1", server_->port));
  }
  server_->thread = std::thread([this] { server_->http->listen_after_bind(); });
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (!http.is_running()) {
    TY_CHECK(std::chrono::steady_clock::now() < deadline);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

HttpFront::~HttpFront() {
  server_->stop.request_stop();
  server_->http->stop();
  server_->thread.join();
}

std::string HttpFront::Url() const {
  return fmt::format("{}://127.0.0.1:{}", server_->options.certificate.has_value() ? "https" : "http", server_->port);
}

int HttpFront::port() const { return server_->port; }

std::vector<std::string> HttpFront::SeenTokens() {
  const std::lock_guard lock(server_->mutex);
  return server_->tokens;
}

void HttpFront::ExpectToken(std::string token) {
  const std::lock_guard lock(server_->mutex);
  server_->options.token = std::move(token);
}

}  // namespace trainyard::control
