// CurlConnection: one exchange after the other by libcurl, over a connection that is kept as long
// as both sides like it.
#pragma once

#include <curl/curl.h>

#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "absl/time/time.h"
#include "operator/base/clock.h"

namespace trainyard::control {

// A request. It references what the caller holds; nothing is copied but the headers.
struct CurlRequest {
  std::string_view method = "GET";
  std::string url{};
  std::vector<std::string> headers{};              // "Name: value"
  std::string_view body{};                         // of methods other than GET
  absl::Duration deadline{};                       // Clock::Monotonic(): for everything, connecting included
  absl::Duration idle = absl::InfiniteDuration();  // given up when not a byte came for so long
  size_t max_header_bytes = size_t{64} << 10;      // status line, headers and trailers together
  std::stop_token stop{};
  std::function<bool()> may_send{};  // asked when the connection stands, before the request's first byte; empty: yes
  std::function<bool(int code, std::string_view)> on_data{};  // false ends the exchange
  std::function<void()> between{};                            // called when all that came was handed on, before more is waited for
};

enum class CurlEnd {
  kDone,
  kStopped,
  kDeadline,
  kIdle,
  kConnectTimeout,
  kNotConnected,
  kNotTrusted,
  kHandshake,
  kHeadersTooLong,
  kNotSent,
  kByReceiver,
  kBroken
};

struct CurlAnswer {
  CurlEnd end = CurlEnd::kBroken;
  std::string problem{};  // in libcurl's words, where it has any
  int code = 0;
  std::string retry_after{};  // headers, as sent
  std::string warning{};
};

// Not thread-safe: one exchange at a time. No redirects, no proxy, no cookies, no .netrc, HTTP/1.1
// only, signals untouched. A connection that was idle for 30 s is not used again, since the server
// may be about to close it.
class CurlConnection {
 public:
  // `configure` sets what all exchanges share, such as TLS. Objects that it hands over by reference
  // must outlive this object.
  explicit CurlConnection(Clock& clock, const std::function<void(CURL*)>& configure = nullptr);

  // Returns within moments of the deadline, or of a stop. Only kDone is a whole answer.
  CurlAnswer Exchange(const CurlRequest& request);

 private:
  struct FreeEasy {
    void operator()(CURL* easy) const { curl_easy_cleanup(easy); }
  };
  struct FreeMulti {
    void operator()(CURLM* multi) const { curl_multi_cleanup(multi); }
  };
  struct Running;

  CurlEnd Drive(const CurlRequest& request, Running& running, CURLcode& result);

  Clock& clock_;
  // An easy handle within a multi handle of its own: only that can be woken up from another thread.
  // The multi handle owns the connection.
  std::unique_ptr<CURLM, FreeMulti> multi_;
  std::unique_ptr<CURL, FreeEasy> easy_;
};

}  // namespace trainyard::control
