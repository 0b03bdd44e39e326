#include "operator/kube/curl_connection.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include "absl/synchronization/notification.h"
#include "tests/fake_apiserver/raw_server.h"

namespace trainyard::control {
namespace {

constexpr size_t kPiece = 1024;
constexpr size_t kCame = 150 * kPiece;

int MakeRoom(void* /*user*/, curl_socket_t socket, curlsocktype /*purpose*/) {
  constexpr int kBytes = 1 << 20;
  return setsockopt(socket, SOL_SOCKET, SO_RCVBUF, &kBytes, sizeof kBytes);
}

void TakeSmallPieces(CURL* easy) {
  curl_easy_setopt(easy, CURLOPT_BUFFERSIZE, static_cast<long>(kPiece));
  curl_easy_setopt(easy, CURLOPT_SOCKOPTFUNCTION, &MakeRoom);
}

// libcurl takes a hundred pieces, then looks after other transfers, of which there are none here.
TEST(CurlConnection, CallsBetweenOnlyWhenAllThatCameWasHandedOn) {
  absl::Notification sent;
  const RawServer server({.bytes = "HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n" + std::string(kCame, 'x'),
                          .sent = [&] { sent.Notify(); },
                          .close_after = false});
  std::stop_source stop;
  size_t taken = 0;
  size_t taken_before = 0;
  CurlRequest ask{.url = server.Url(), .deadline = RealClock().Monotonic() + absl::Seconds(60), .stop = stop.get_token()};
  ask.on_data = [&](int /*code*/, std::string_view bytes) {
    EXPECT_TRUE(sent.WaitForNotificationWithTimeout(absl::Seconds(30)));
    taken += bytes.size();
    return true;
  };
  ask.between = [&] {
    if (taken == 0) return;
    taken_before = taken;
    stop.request_stop();
  };
  EXPECT_EQ(CurlConnection(RealClock(), TakeSmallPieces).Exchange(ask).end, CurlEnd::kStopped);
  EXPECT_EQ(taken_before, kCame);
}

}  // namespace
}  // namespace trainyard::control
