#include "trainer/serve/rest_server.h"

#include <fmt/format.h>

#include <utility>

#include "trainer/base/status_macros.h"
#include "trainer/report/bounded_http_server.h"

namespace trainyard::engine {
namespace {

constexpr size_t kHeaderBytes = 64 << 10;  // of a request beside its body
constexpr absl::Duration kReadDeadline = absl::Seconds(10);
constexpr absl::Duration kSendDeadline = absl::Seconds(5);
constexpr absl::Duration kIdle = absl::Seconds(60);

void Put(HttpAnswer answer, httplib::Response& response) {
  response.status = answer.status;
  for (const auto& [name, value] : answer.headers) response.set_header(name, value);
  response.body = std::move(answer.body);
  response.set_header("Content-Type", answer.type);
}

// What the library refuses by itself, in words.
std::string_view RefusalText(int status) {
  switch (status) {
    case 404:
      return "path: there is nothing at this one";
    case 413:
      return "the body: found more bytes than a request may have (--max-request)";
    case 414:
      return "path: found a longer one than any that is served";
    default:
      return "found no HTTP request that can be read to its end in time";
  }
}

}  // namespace

struct RestServer::State {
  State(const RestServerOptions& with, const HttpApi& answers)
      : options(with),
        api(answers),
        server({.connections = with.connections,
                .request_bytes = with.request_bytes + kHeaderBytes,
                .body_bytes = with.request_bytes,
                .read_deadline = kReadDeadline,
                .answer_deadline = with.timeout + kSendDeadline,
                .idle = kIdle}) {
    server.set_tcp_nodelay(true);
    server.set_payload_max_length(options.request_bytes);
    server.set_pre_routing_handler([](const httplib::Request& request, httplib::Response& response) { return Refuse(request, response); });
    server.set_error_handler([](const httplib::Request&, httplib::Response& response) {
      if (response.body.empty()) Put(ErrorAnswer(response.status, RefusalText(response.status)), response);
    });
    const char* const any = "/.*";
    server.Get(any, [this](const httplib::Request& request, httplib::Response& response) { Put(Answer(request, ""), response); });
    server.Post(any, [this](const httplib::Request& request, httplib::Response& response, const httplib::ContentReader& read) {
      std::string body;
      const bool whole = read([&body](const char* bytes, size_t size) {
        body.append(bytes, size);
        return true;
      });
      if (whole) Put(Answer(request, std::move(body)), response);
    });
  }

  // Of requests whose body is not read: BoundedHttpServer ends their connection.
  static httplib::Server::HandlerResponse Refuse(const httplib::Request& request, httplib::Response& response) {
    HttpAnswer refusal;
    if (request.target.size() > BoundedHttpServer::kMostTargetBytes) {
      refusal = ErrorAnswer(414, RefusalText(414));
    } else if (request.method != "GET" && request.method != "HEAD" && request.method != "POST") {
      refusal = ErrorAnswer(405, fmt::format("method: found {}, expected GET or POST", request.method));
      refusal.headers.emplace_back("Allow", "GET, POST");
    } else if (request.has_header("Content-Encoding")) {
      refusal = ErrorAnswer(415, "header Content-Encoding: found one, expected a body that is not packed");
    } else if (request.is_multipart_form_data()) {
      refusal = ErrorAnswer(415, "header Content-Type: found multipart/form-data, expected application/json");
    } else if (request.method == "POST" &&
               request.get_header_value_count("Content-Length") + request.get_header_value_count("Transfer-Encoding") != 1) {
      refusal = ErrorAnswer(411, "header Content-Length: expected it once, or Transfer-Encoding: chunked");
    } else if (const auto unread = BoundedHttpServer::RefusalOf(request)) {
      refusal = ErrorAnswer(unread->status, unread->why + (unread->status == 413 ? " (--max-request)" : ""));
    } else {
      return httplib::Server::HandlerResponse::Unhandled;
    }
    Put(std::move(refusal), response);
    return httplib::Server::HandlerResponse::Handled;
  }

  HttpAnswer Answer(const httplib::Request& request, std::string body) const {
    return api.Answer({.method = request.method == "HEAD" ? "GET" : request.method,
                       .path = request.path,
                       .body = std::move(body),
                       .json_bytes = request.get_header_value("Inference-Header-Content-Length")});
  }

  const RestServerOptions options;
  const HttpApi& api;
  BoundedHttpServer server;  // last: its threads use all of the above
};

RestServer::RestServer(std::unique_ptr<State> state) : state_(std::move(state)) {}
RestServer::~RestServer() = default;

absl::StatusOr<std::unique_ptr<RestServer>> RestServer::Start(const RestServerOptions& options, const HttpApi& api) {
  auto state = std::make_unique<State>(options, api);
  TY_RETURN_IF_ERROR(state->server.Start("REST", options.host, options.port));
  return std::unique_ptr<RestServer>(new RestServer(std::move(state)));
}

int RestServer::port() const { return state_->server.port(); }

}  // namespace trainyard::engine
