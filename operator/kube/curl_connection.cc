#include "operator/kube/curl_connection.h"

#include <openssl/ssl.h>

#include <algorithm>
#include <array>

#include "operator/base/check.h"

namespace trainyard::control {
namespace {

constexpr long kMaxIdleSeconds = 30;
constexpr absl::Duration kConnectTimeout = absl::Seconds(10);

struct FreeList {
  void operator()(curl_slist* list) const { curl_slist_free_all(list); }
};

std::unique_ptr<curl_slist, FreeList> HeaderList(const std::vector<std::string>& headers) {
  // Without it libcurl waits for "100 Continue" before a long body.
  curl_slist* list = curl_slist_append(nullptr, "Expect:");
  for (const std::string& header : headers) list = curl_slist_append(list, header.c_str());
  return std::unique_ptr<curl_slist, FreeList>(list);
}

std::string HeaderOf(CURL* easy, const char* name) {
  curl_header* header = nullptr;
  return curl_easy_header(easy, name, 0, CURLH_HEADER, -1, &header) == CURLHE_OK ? header->value : "";
}

// libcurl asks OpenSSL to free a connection's buffer whenever it is empty: at each event of a
// watch. To allocate 17 KiB makes glibc's malloc look through all small blocks that are free.
CURLcode KeepBuffers(CURL* /*easy*/, void* context, void* /*user*/) {
  SSL_CTX_clear_mode(static_cast<SSL_CTX*>(context), SSL_MODE_RELEASE_BUFFERS);
  return CURLE_OK;
}

// One call of libcurl hands on a hundred pieces at most; with TLS a piece is one record, so one
// event of a watch.
bool MoreHasCome(CURLM* multi) {
  int sockets = 0;
  return curl_multi_poll(multi, nullptr, 0, 0, &sockets) == CURLM_OK && sockets > 0;
}

}  // namespace

// One exchange as libcurl's callbacks see it.
struct CurlConnection::Running {
  const CurlRequest& request;
  CURL* easy;
  Clock& clock;
  absl::Duration heard_at;
  size_t header_bytes = 0;
  bool headers_end = false;
  CurlEnd refused = CurlEnd::kDone;  // why a callback ended it

  static size_t OnHeader(const char* data, size_t /*one*/, size_t size, void* user) {
    Running& self = *static_cast<Running*>(user);
    self.heard_at = self.clock.Monotonic();
    self.header_bytes += size;
    if (self.header_bytes > self.request.max_header_bytes) {
      self.refused = CurlEnd::kHeadersTooLong;
      return 0;
    }
    self.headers_end = std::string_view(data, size) == "\r\n" || std::string_view(data, size) == "\n" || self.headers_end;
    return size;
  }

  static size_t OnData(const char* data, size_t /*one*/, size_t size, void* user) {
    Running& self = *static_cast<Running*>(user);
    self.heard_at = self.clock.Monotonic();
    long code = 0;
    curl_easy_getinfo(self.easy, CURLINFO_RESPONSE_CODE, &code);
    if (self.request.on_data(static_cast<int>(code), std::string_view(data, size))) return size;
    self.refused = CurlEnd::kByReceiver;
    return CURL_WRITEFUNC_ERROR;
  }

  static int BeforeRequest(void* user, char* /*to*/, char* /*from*/, int /*to_port*/, int /*from_port*/) {
    Running& self = *static_cast<Running*>(user);
    if (!self.request.may_send || self.request.may_send()) return CURL_PREREQFUNC_OK;
    self.refused = CurlEnd::kNotSent;
    return CURL_PREREQFUNC_ABORT;
  }
};

CurlConnection::CurlConnection(Clock& clock, const std::function<void(CURL*)>& configure) : clock_(clock) {
  static const CURLcode kReady = curl_global_init(CURL_GLOBAL_DEFAULT);
  TY_CHECK(kReady == CURLE_OK);
  multi_.reset(curl_multi_init());
  easy_.reset(curl_easy_init());
  TY_CHECK(multi_ != nullptr && easy_ != nullptr);
  curl_multi_setopt(multi_.get(), CURLMOPT_MAXCONNECTS, 1L);
  CURL* const easy = easy_.get();
  curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
  // One exchange at a time has nothing to gain from HTTP/2: it would only offer to share this
  // connection. A watch that its reader paces, or an answer that stalls, holds up its own
  // connection alone.
  curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
  curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);
  curl_easy_setopt(easy, CURLOPT_PROXY, "");  // nor one of the environment
  curl_easy_setopt(easy, CURLOPT_MAXAGE_CONN, kMaxIdleSeconds);
  curl_easy_setopt(easy, CURLOPT_TCP_KEEPALIVE, 1L);
  curl_easy_setopt(easy, CURLOPT_SSL_CTX_FUNCTION, &KeepBuffers);
  curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, &Running::OnHeader);
  curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, &Running::OnData);
  curl_easy_setopt(easy, CURLOPT_PREREQFUNCTION, &Running::BeforeRequest);
  if (configure) configure(easy);
}

CurlEnd CurlConnection::Drive(const CurlRequest& request, Running& running, CURLcode& result) {
  CURLM* const multi = multi_.get();
  const std::stop_callback wake(request.stop, [multi] { curl_multi_wakeup(multi); });
  while (true) {
    int unfinished = 0;
    if (curl_multi_perform(multi, &unfinished) != CURLM_OK) return CurlEnd::kBroken;
    if (unfinished == 0) break;
    if (request.stop.stop_requested()) return CurlEnd::kStopped;
    if (request.between && !MoreHasCome(multi)) request.between();
    const absl::Duration now = clock_.Monotonic();
    if (now >= request.deadline) return CurlEnd::kDeadline;
    if (now - running.heard_at >= request.idle) return CurlEnd::kIdle;
    const absl::Duration wait = std::min({request.deadline - now, running.heard_at + request.idle - now, absl::Minutes(1)});
    curl_multi_poll(multi, nullptr, 0, static_cast<int>(absl::ToInt64Milliseconds(wait)) + 1, nullptr);
  }
  int left = 0;
  const CURLMsg* const message = curl_multi_info_read(multi, &left);
  if (message == nullptr || message->msg != CURLMSG_DONE) return CurlEnd::kBroken;
  result = message->data.result;
  if (request.stop.stop_requested()) return CurlEnd::kStopped;
  if (running.refused != CurlEnd::kDone) return running.refused;
  switch (result) {
    case CURLE_OK:
      // A connection that closes within the headers is no error to libcurl.
      return running.headers_end ? CurlEnd::kDone : CurlEnd::kBroken;
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_CONNECT:
      return CurlEnd::kNotConnected;
    case CURLE_OPERATION_TIMEDOUT:
      return CurlEnd::kConnectTimeout;  // the only time that libcurl itself limits
    case CURLE_PEER_FAILED_VERIFICATION:
      return CurlEnd::kNotTrusted;
    case CURLE_SSL_CONNECT_ERROR:
    case CURLE_SSL_CERTPROBLEM:
      return CurlEnd::kHandshake;
    default:
      return CurlEnd::kBroken;
  }
}

CurlAnswer CurlConnection::Exchange(const CurlRequest& request) {
  CURL* const easy = easy_.get();
  const absl::Duration began = clock_.Monotonic();
  Running running{.request = request, .easy = easy, .clock = clock_, .heard_at = began};
  std::array<char, CURL_ERROR_SIZE> problem{};
  const auto headers = HeaderList(request.headers);
  const std::string method(request.method);
  const absl::Duration connect = std::clamp(request.deadline - began, absl::Milliseconds(1), kConnectTimeout);
  curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, problem.data());
  curl_easy_setopt(easy, CURLOPT_URL, request.url.c_str());
  curl_easy_setopt(easy, CURLOPT_HTTPHEADER, headers.get());
  curl_easy_setopt(easy, CURLOPT_HEADERDATA, &running);
  curl_easy_setopt(easy, CURLOPT_WRITEDATA, &running);
  curl_easy_setopt(easy, CURLOPT_PREREQDATA, &running);
  curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, static_cast<long>(absl::ToInt64Milliseconds(connect)));
  if (method == "GET") {
    curl_easy_setopt(easy, CURLOPT_HTTPGET, 1L);
    curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, nullptr);
  } else {
    curl_easy_setopt(easy, CURLOPT_POST, 1L);
    curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(request.body.size()));
    curl_easy_setopt(easy, CURLOPT_POSTFIELDS,
                     request.body.data());  // NOLINT(bugprone-suspicious-stringview-data-usage): its size is set above
    curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, method.c_str());
  }
  CurlAnswer answer;
  CURLcode result = CURLE_OK;
  if (curl_multi_add_handle(multi_.get(), easy) == CURLM_OK) answer.end = Drive(request, running, result);
  long code = 0;
  curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &code);
  answer.code = static_cast<int>(code);
  answer.problem = problem[0] != '\0' ? problem.data() : curl_easy_strerror(result);
  if (answer.end == CurlEnd::kDone) {
    answer.retry_after = HeaderOf(easy, "Retry-After");
    answer.warning = HeaderOf(easy, "Warning");
  }
  curl_multi_remove_handle(multi_.get(), easy);  // in the middle of an exchange this closes its connection
  curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, nullptr);
  return answer;
}

}  // namespace trainyard::control
