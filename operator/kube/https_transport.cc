#include "operator/kube/https_transport.h"

#include <fmt/format.h>
#include <sys/socket.h>

#include <algorithm>
#include <csignal>
#include <utility>
#include <vector>

#include "operator/base/mutex.h"
#include "operator/base/status_macros.h"
#include "operator/kube/burst_pacer.h"
#include "operator/kube/curl_connection.h"
#include "operator/kube/endpoint.h"
#include "operator/kube/pem.h"
#include "operator/kube/token_source.h"
#include "trainyard_version.h"

namespace trainyard::control {
namespace {

// Connections that were not used for longer are closed.
constexpr absl::Duration kMaxIdle = absl::Seconds(30);
// Room for the bytes of a busy watch within BurstPacer::kPause: the API server ends watches that
// are slow to read.
constexpr int kReceiveBufferBytes = 1 << 20;

using Connection = std::unique_ptr<CurlConnection>;

int GrowReceiveBuffer(void* /*user*/, curl_socket_t socket, curlsocktype /*purpose*/) {
  setsockopt(socket, SOL_SOCKET, SO_RCVBUF, &kReceiveBufferBytes, sizeof(kReceiveBufferBytes));
  return CURL_SOCKOPT_OK;
}

void SetPem(CURL* easy, CURLoption option, const std::string& pem) {
  // The handle reads our copy: the config lives as long as the transport.
  curl_blob blob{.data = const_cast<char*>(pem.data()), .len = pem.size(), .flags = CURL_BLOB_NOCOPY};
  curl_easy_setopt(easy, option, &blob);
}

class HttpsTransport : public Transport {
 public:
  HttpsTransport(KubeConfig config, Endpoint endpoint, Clock& clock)
      : config_(std::move(config)), endpoint_(std::move(endpoint)), clock_(clock), tokens_(clock, config_.token, config_.token_file) {}

  absl::StatusOr<HttpResponse> Send(const HttpRequest& request) override {
    std::string body;
    bool too_long = false;
    if (request.sink != nullptr) request.sink->Begin();
    auto response = Exchange(request, absl::InfiniteDuration(), /*paced=*/false, [&](int code, std::string_view bytes) {
      if (request.sink != nullptr && code >= 200 && code < 300) return request.sink->Take(bytes);
      too_long = body.size() + bytes.size() > request.max_body_bytes;
      if (!too_long) body += bytes;
      return !too_long;
    });
    if (too_long) return absl::ResourceExhaustedError(fmt::format("the answer is longer than {} bytes", request.max_body_bytes));
    if (response.ok()) response->body = std::move(body);
    return response;
  }

  absl::StatusOr<HttpResponse> Stream(const HttpRequest& request, absl::Duration idle,
                                      const std::function<bool(std::string_view)>& on_data) override {
    std::string refusal;
    auto response = Exchange(request, idle, /*paced=*/true, [&](int code, std::string_view bytes) {
      if (code >= 200 && code < 300) return !request.stop.stop_requested() && on_data(bytes);
      refusal.append(bytes.substr(0, request.max_body_bytes - std::min(request.max_body_bytes, refusal.size())));
      return true;
    });
    if (response.ok()) response->body = std::move(refusal);
    return response;
  }

 private:
  struct Idle {
    Connection connection;
    absl::Duration since;
  };

  absl::StatusOr<HttpResponse> Exchange(const HttpRequest& request, absl::Duration idle, bool paced,
                                        const std::function<bool(int code, std::string_view)>& on_data) {
    const absl::Duration began = clock_.Monotonic();
    if (request.timeout <= absl::ZeroDuration()) return absl::DeadlineExceededError("no time left for the request");
    bool in_burst = false;
    CurlRequest ask{.method = request.method,
                    .url = endpoint_.base + request.target,
                    .headers = Headers(request),
                    .body = request.body,
                    .deadline = began + request.timeout,
                    .idle = idle,
                    .max_header_bytes = request.max_header_bytes,
                    .stop = request.stop,
                    .may_send = request.may_send,
                    .on_data = on_data};
    if (paced) {
      ask.on_data = [&](int code, std::string_view bytes) {
        in_burst = pacer_.InBurst(clock_.Monotonic());
        return on_data(code, bytes);
      };
      ask.between = [&] {
        if (std::exchange(in_burst, false)) SleepFor(clock_, BurstPacer::kPause, request.stop);
      };
    }
    Connection connection = TakeConnection();
    CurlAnswer answer = connection->Exchange(ask);
    if (request.stop.stop_requested()) return absl::CancelledError("stopping");
    if (answer.end != CurlEnd::kDone) return Failure(answer, request, clock_.Monotonic() - began, idle);
    PutBack(std::move(connection));
    if (answer.code == 401) tokens_.Refused();
    return HttpResponse{.code = answer.code, .retry_after = std::move(answer.retry_after), .warning = std::move(answer.warning)};
  }

  std::vector<std::string> Headers(const HttpRequest& request) {
    std::vector<std::string> headers = {"Accept: " + request.accept, "User-Agent: trainyard-operator/" TRAINYARD_VERSION};
    if (!request.body.empty()) headers.push_back("Content-Type: " + request.content_type);
    if (const std::string token = tokens_.Token(); !token.empty()) headers.push_back("Authorization: Bearer " + token);
    return headers;
  }

  absl::Status Failure(const CurlAnswer& answer, const HttpRequest& request, absl::Duration took, absl::Duration idle) const {
    const std::string& server = config_.server;
    switch (answer.end) {
      case CurlEnd::kNotConnected:
        return absl::UnavailableError(fmt::format("{}: no connection: {}", server, answer.problem));
      case CurlEnd::kConnectTimeout:
        return absl::UnavailableError(fmt::format("{}: no connection within {}", server, absl::FormatDuration(took)));
      case CurlEnd::kNotTrusted:
        return absl::UnauthenticatedError(fmt::format(
            "{}: its certificate is not trusted: {}; check the certificate authority and the server's name", server, answer.problem));
      case CurlEnd::kHandshake:
        return absl::UnavailableError(fmt::format("{}: the TLS handshake failed: {}", server, answer.problem));
      case CurlEnd::kDeadline:
        return absl::DeadlineExceededError(fmt::format("{}: no end of the answer within {}", server, absl::FormatDuration(took)));
      case CurlEnd::kIdle:
        return absl::DeadlineExceededError(fmt::format("{}: silent for {}", server, absl::FormatDuration(idle)));
      case CurlEnd::kHeadersTooLong:
        return absl::ResourceExhaustedError(fmt::format("{}: headers of more than {} bytes", server, request.max_header_bytes));
      case CurlEnd::kNotSent:
        return absl::FailedPreconditionError("the request may not be sent any more");
      case CurlEnd::kStopped:
      case CurlEnd::kByReceiver:
        return absl::CancelledError("stopping");
      default:
        return absl::UnavailableError(fmt::format("{}: the connection broke: {}", server, answer.problem));
    }
  }

  Connection TakeConnection() {
    std::vector<Idle> stale;  // closed after the lock
    {
      MutexLock lock(mutex_);
      const absl::Duration oldest = clock_.Monotonic() - kMaxIdle;
      const auto fresh = std::find_if(idle_.begin(), idle_.end(), [oldest](const Idle& idle) { return idle.since >= oldest; });
      stale.assign(std::make_move_iterator(idle_.begin()), std::make_move_iterator(fresh));
      idle_.erase(idle_.begin(), fresh);
      if (!idle_.empty()) {
        Connection connection = std::move(idle_.back().connection);
        idle_.pop_back();
        return connection;
      }
    }
    return std::make_unique<CurlConnection>(clock_, [this](CURL* easy) { Configure(easy); });
  }

  void PutBack(Connection connection) {
    MutexLock lock(mutex_);
    idle_.push_back({std::move(connection), clock_.Monotonic()});  // so sorted by age; the youngest is used first
  }

  void Configure(CURL* easy) const {
    curl_easy_setopt(easy, CURLOPT_SOCKOPTFUNCTION, &GrowReceiveBuffer);
    curl_easy_setopt(easy, CURLOPT_SSLVERSION, static_cast<long>(CURL_SSLVERSION_TLSv1_2));
    curl_easy_setopt(easy, CURLOPT_SSL_VERIFYPEER, config_.insecure_skip_tls_verify ? 0L : 1L);
    curl_easy_setopt(easy, CURLOPT_SSL_VERIFYHOST, config_.insecure_skip_tls_verify ? 0L : 2L);
    if (!config_.ca_pem.empty()) {
      curl_easy_setopt(easy, CURLOPT_CAPATH, nullptr);  // the system's authorities are not ours
      SetPem(easy, CURLOPT_CAINFO_BLOB, config_.ca_pem);
    }
    if (!config_.client_certificate_pem.empty()) {
      SetPem(easy, CURLOPT_SSLCERT_BLOB, config_.client_certificate_pem);
      SetPem(easy, CURLOPT_SSLKEY_BLOB, config_.client_key_pem);
    }
    if (connect_to_ != nullptr) curl_easy_setopt(easy, CURLOPT_CONNECT_TO, connect_to_.get());
  }

  struct FreeList {
    void operator()(curl_slist* list) const { curl_slist_free_all(list); }
  };

  const KubeConfig config_;
  const Endpoint endpoint_;
  Clock& clock_;
  // The name in the URL is then the one that the certificate has to have.
  const std::unique_ptr<curl_slist, FreeList> connect_to_{
      endpoint_.connect_to.empty() ? nullptr : curl_slist_append(nullptr, endpoint_.connect_to.c_str())};
  TokenSource tokens_;
  BurstPacer pacer_;
  Mutex mutex_;
  std::vector<Idle> idle_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

absl::StatusOr<std::unique_ptr<Transport>> MakeHttpsTransport(const KubeConfig& config, Clock& clock) {
  TY_ASSIGN_OR_RETURN(Endpoint endpoint, ParseEndpoint(config.server, config.tls_server_name));
  if (!config.ca_pem.empty()) TY_RETURN_IF_ERROR(CheckCertificates(config.ca_pem));
  if (!config.client_certificate_pem.empty()) TY_RETURN_IF_ERROR(CheckKeyPair(config.client_certificate_pem, config.client_key_pem));
  std::signal(SIGPIPE, SIG_IGN);  // writing to a connection that broke is an error like any other, not the end of the process
  return std::make_unique<HttpsTransport>(config, std::move(endpoint), clock);
}

}  // namespace trainyard::control
