#include "operator/kube/https_transport.h"

#include <fmt/format.h>
#include <httplib.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <csignal>
#include <utility>
#include <vector>

#include "operator/base/mutex.h"
#include "operator/base/status_macros.h"
#include "operator/kube/burst_pacer.h"
#include "operator/kube/endpoint.h"
#include "operator/kube/pem.h"
#include "operator/kube/token_source.h"
#include "operator/kube/watchdog.h"
#include "trainyard_version.h"

namespace trainyard::control {
namespace {

// A connection that was idle for longer may have been closed by the server (after 90 s by default), which a request would notice too late.
constexpr absl::Duration kMaxIdle = absl::Seconds(30);
constexpr absl::Duration kConnectTimeout = absl::Seconds(10);
constexpr absl::Duration kWriteTimeout = absl::Seconds(10);
// Room for what a busy watch brings within BurstPacer::kPause: the API server ends watches that are slow to read.
constexpr int kReceiveBufferBytes = 1 << 20;

using Connection = std::unique_ptr<httplib::ClientImpl>;

struct FreeStore {
  void operator()(X509_STORE* store) const { X509_STORE_free(store); }
};

// Why the last handshake of this thread was refused; httplib keeps only that it was.
thread_local long last_verify_error = X509_V_OK;

int NoteVerifyError(int ok, X509_STORE_CTX* context) {
  if (ok == 0) last_verify_error = X509_STORE_CTX_get_error(context);
  return ok;
}

bool IsReadable(int socket) {
  pollfd question{.fd = socket, .events = POLLIN, .revents = 0};
  return poll(&question, 1, 0) != 0;
}

struct TlsIdentity {
  std::unique_ptr<X509_STORE, FreeStore> authorities;  // null: the system's
  std::vector<Certificate> certificates;               // the client's own, then its chain
  PrivateKey key;
};

absl::StatusOr<TlsIdentity> MakeIdentity(const KubeConfig& config) {
  TlsIdentity identity;
  if (!config.ca_pem.empty()) {
    TY_ASSIGN_OR_RETURN(const std::vector<Certificate> authorities, ParseCertificates(config.ca_pem));
    identity.authorities.reset(X509_STORE_new());
    for (const Certificate& authority : authorities) X509_STORE_add_cert(identity.authorities.get(), authority.get());
  }
  if (!config.client_certificate_pem.empty()) {
    TY_ASSIGN_OR_RETURN(identity.certificates, ParseCertificates(config.client_certificate_pem));
    TY_ASSIGN_OR_RETURN(identity.key, ParsePrivateKey(config.client_key_pem));
  }
  return identity;
}

class HttpsTransport : public Transport {
 public:
  HttpsTransport(KubeConfig config, Endpoint endpoint, TlsIdentity identity, Clock& clock)
      : config_(std::move(config)),
        endpoint_(std::move(endpoint)),
        identity_(std::move(identity)),
        clock_(clock),
        tokens_(clock, config_.token, config_.token_file),
        watchdog_(clock) {}

  absl::StatusOr<HttpResponse> Send(const HttpRequest& request) override {
    std::string body;
    bool too_long = false;
    auto response = Exchange(request, request.timeout, /*paced=*/false, [&](int /*code*/, std::string_view bytes) {
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

  absl::StatusOr<HttpResponse> Exchange(const HttpRequest& request, absl::Duration read_timeout, bool paced,
                                        const std::function<bool(int code, std::string_view)>& on_data) {
    const absl::Duration began = clock_.Monotonic();
    const absl::Duration deadline = began + request.timeout;
    if (request.timeout <= absl::ZeroDuration()) return absl::DeadlineExceededError("no time left for the request");
    Connection connection = TakeConnection();
    SetTimeouts(*connection, request.timeout, read_timeout);

    absl::Duration heard_at = began;
    int code = 0;
    httplib::Request ask;
    ask.method = request.method;
    ask.path = endpoint_.prefix + request.target;
    ask.body = request.body;
    ask.headers = Headers(request);
    ask.response_handler = [&](const httplib::Response& head) {
      code = head.status;
      heard_at = clock_.Monotonic();
      return true;
    };
    ask.content_receiver = [&](const char* data, size_t size, uint64_t /*offset*/, uint64_t /*total*/) {
      heard_at = clock_.Monotonic();
      if (heard_at >= deadline || !on_data(code, std::string_view(data, size))) return false;
      if (paced && pacer_.InBurst(heard_at) && !IsReadable(connection->socket())) SleepFor(clock_, BurstPacer::kPause, request.stop);
      return true;
    };

    httplib::Response answer;
    httplib::Error error = httplib::Error::Success;
    last_verify_error = X509_V_OK;
    bool done = false;
    {
      const Watchdog::Guard guard(watchdog_, deadline, request.stop, [&connection] { connection->stop(); });
      try {
        done = connection->send(ask, answer, error);
      } catch (const std::exception& exception) {
        return absl::UnavailableError(fmt::format("{}: {}", config_.server, exception.what()));
      }
    }
    if (request.stop.stop_requested()) return absl::CancelledError("stopping");
    if (!done) return Failure(error, began, heard_at, deadline, read_timeout);
    if (answer.status == 401) tokens_.Refused();
    HttpResponse response{
        .code = answer.status, .retry_after = answer.get_header_value("Retry-After"), .warning = answer.get_header_value("Warning")};
    PutBack(std::move(connection));
    return response;
  }

  httplib::Headers Headers(const HttpRequest& request) {
    httplib::Headers headers = {
        {"Accept", request.accept}, {"Accept-Encoding", "identity"}, {"User-Agent", "trainyard-operator/" TRAINYARD_VERSION}};
    if (!request.body.empty()) headers.emplace("Content-Type", request.content_type);
    if (std::string token = tokens_.Token(); !token.empty()) headers.emplace("Authorization", "Bearer " + token);
    return headers;
  }

  absl::Status Failure(httplib::Error error, absl::Duration began, absl::Duration heard_at, absl::Duration deadline,
                       absl::Duration read_timeout) const {
    const absl::Duration now = clock_.Monotonic();
    switch (error) {
      case httplib::Error::Connection:
        return absl::UnavailableError(fmt::format("{}: no connection (refused, unreachable or unknown name)", config_.server));
      case httplib::Error::ConnectionTimeout:
        return absl::UnavailableError(fmt::format("{}: no connection within {}", config_.server, absl::FormatDuration(now - began)));
      case httplib::Error::SSLConnection:
        if (last_verify_error != X509_V_OK) {
          return absl::UnauthenticatedError(
              fmt::format("{}: its certificate is not trusted: {}; check the certificate authority and the server's name", config_.server,
                          X509_verify_cert_error_string(last_verify_error)));
        }
        return absl::UnavailableError(fmt::format("{}: the TLS handshake failed", config_.server));
      default:
        break;
    }
    if (now >= deadline)
      return absl::DeadlineExceededError(
          fmt::format("{}: no end of the answer within {}", config_.server, absl::FormatDuration(now - began)));
    if (now - heard_at >= read_timeout) {
      return absl::DeadlineExceededError(fmt::format("{}: silent for {}", config_.server, absl::FormatDuration(now - heard_at)));
    }
    return absl::UnavailableError(fmt::format("{}: the connection broke ({})", config_.server, httplib::to_string(error)));
  }

  static void SetTimeouts(httplib::ClientImpl& connection, absl::Duration all, absl::Duration read) {
    connection.set_connection_timeout(absl::ToChronoMicroseconds(std::min(all / 2, kConnectTimeout)));  // TCP, then TLS
    connection.set_write_timeout(absl::ToChronoMicroseconds(std::min(all, kWriteTimeout)));
    connection.set_read_timeout(absl::ToChronoMicroseconds(std::min(all, read)));
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
    return Connect();
  }

  void PutBack(Connection connection) {
    MutexLock lock(mutex_);
    idle_.push_back({std::move(connection), clock_.Monotonic()});  // so sorted by age; the youngest is used first
  }

  // The object only; httplib connects with the first request.
  Connection Connect() {
    Connection connection = endpoint_.tls ? ConnectTls() : std::make_unique<httplib::ClientImpl>(endpoint_.host, endpoint_.port);
    connection->set_keep_alive(true);
    connection->set_tcp_nodelay(true);
    connection->set_url_encode(false);
    connection->set_decompress(false);
    connection->set_socket_options(
        [](int socket) { setsockopt(socket, SOL_SOCKET, SO_RCVBUF, &kReceiveBufferBytes, sizeof(kReceiveBufferBytes)); });
    return connection;
  }

  Connection ConnectTls() {
    const std::string& name = config_.tls_server_name.empty() ? endpoint_.host : config_.tls_server_name;
    X509* const own = identity_.certificates.empty() ? nullptr : identity_.certificates.front().get();
    auto connection = std::make_unique<httplib::SSLClient>(name, endpoint_.port, own, own == nullptr ? nullptr : identity_.key.get());
    if (name != endpoint_.host) connection->set_hostname_addr_map({{name, endpoint_.host}});
    SSL_CTX* const context = connection->ssl_context();
    for (size_t i = 1; i < identity_.certificates.size(); ++i) SSL_CTX_add1_chain_cert(context, identity_.certificates[i].get());
    SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
    // OpenSSL itself verifies chain and name during the handshake. httplib's own check comes after it and would trust the system's
    // authorities too.
    connection->enable_server_certificate_verification(false);
    if (config_.insecure_skip_tls_verify) {
      SSL_CTX_set_verify(context, SSL_VERIFY_NONE, nullptr);
      return connection;
    }
    if (identity_.authorities != nullptr) {
      X509_STORE_up_ref(identity_.authorities.get());
      SSL_CTX_set_cert_store(context, identity_.authorities.get());
    } else {
      SSL_CTX_set_default_verify_paths(context);
    }
    X509_VERIFY_PARAM* const expected = SSL_CTX_get0_param(context);
    if (IsIpAddress(name)) {
      X509_VERIFY_PARAM_set1_ip_asc(expected, name.c_str());
    } else {
      X509_VERIFY_PARAM_set_hostflags(expected, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
      X509_VERIFY_PARAM_set1_host(expected, name.data(), name.size());
    }
    SSL_CTX_set_verify(context, SSL_VERIFY_PEER, NoteVerifyError);
    return connection;
  }

  const KubeConfig config_;
  const Endpoint endpoint_;
  const TlsIdentity identity_;
  Clock& clock_;
  TokenSource tokens_;
  Watchdog watchdog_;
  BurstPacer pacer_;
  Mutex mutex_;
  std::vector<Idle> idle_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

absl::StatusOr<std::unique_ptr<Transport>> MakeHttpsTransport(const KubeConfig& config, Clock& clock) {
  TY_ASSIGN_OR_RETURN(Endpoint endpoint, ParseEndpoint(config.server));
  if (!config.tls_server_name.empty() && !IsIpAddress(endpoint.host)) {
    return absl::InvalidArgumentError(
        fmt::format("tls-server-name \"{}\": needs a server given by IP address, found \"{}\"", config.tls_server_name, endpoint.host));
  }
  TY_ASSIGN_OR_RETURN(TlsIdentity identity, MakeIdentity(config));
  std::signal(SIGPIPE, SIG_IGN);  // writing to a connection that broke is an error like any other, not the end of the process
  return std::make_unique<HttpsTransport>(config, std::move(endpoint), std::move(identity), clock);
}

}  // namespace trainyard::control
