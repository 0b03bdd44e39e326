// Transport: one HTTP request, or one streaming request. The seam at which tests put a server in
// process.
#pragma once

#include <functional>
#include <stop_token>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace trainyard::control {

// Takes the body of a 2xx answer as it comes.
class BodySink {
 public:
  virtual ~BodySink() = default;
  // An answer begins: bytes taken before belong to an answer that did not end.
  virtual void Begin() = 0;
  // False ends the request with Cancelled.
  virtual bool Take(std::string_view bytes) = 0;
};

struct HttpRequest {
  std::string method = "GET";
  std::string target{};  // path and query, already escaped
  std::string body{};
  std::string content_type = "application/json";
  std::string accept = "application/json";
  absl::Duration timeout = absl::Seconds(30);  // for the whole request, connecting included
  size_t max_body_bytes = size_t{256} << 20;   // a longer answer is an error (ResourceExhausted)
  size_t max_header_bytes = size_t{64} << 10;  // so are longer headers
  std::stop_token stop{};                      // ends the request with Cancelled, wherever it is
  BodySink* sink = nullptr;                    // for Send: takes the body, however long, in place of HttpResponse::body
  // Asked when the connection stands, directly before the first byte is sent; false:
  // FailedPrecondition, and nothing was sent.
  std::function<bool()> may_send{};
};

struct HttpResponse {
  int code = 0;
  std::string retry_after{};  // header, as sent
  std::string warning{};      // header (RFC 7234, 299 -): the API server's deprecations and unknown fields
  std::string body{};
};

// Thread-safe: any number of requests may be under way. An answer of any code is a value. The error
// is for no answer: Unavailable (refused, reset, cut short), DeadlineExceeded, Unauthenticated
// (TLS), Cancelled, ResourceExhausted, FailedPrecondition.
class Transport {
 public:
  virtual ~Transport() = default;

  virtual absl::StatusOr<HttpResponse> Send(const HttpRequest& request) = 0;

  // Hands the body of a 2xx answer to `on_data` as it comes. Returns
  // - the answer with an empty body, when the server ended it;
  // - Cancelled, when `on_data` returned false or `request.stop` was requested;
  // - DeadlineExceeded, when nothing came for `idle`, or `request.timeout` passed.
  virtual absl::StatusOr<HttpResponse> Stream(const HttpRequest& request, absl::Duration idle,
                                              const std::function<bool(std::string_view)>& on_data) = 0;
};

}  // namespace trainyard::control
