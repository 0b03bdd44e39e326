#include "tests/fake_apiserver/raw_server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <utility>

#include "operator/base/check.h"

namespace trainyard::control {
namespace {

bool IsGone(int peer, std::chrono::milliseconds wait) {
  pollfd question{.fd = peer, .events = POLLIN, .revents = 0};
  char byte = 0;
  return poll(&question, 1, static_cast<int>(wait.count())) > 0 && recv(peer, &byte, 1, 0) <= 0;
}

}  // namespace

RawServer::RawServer(RawAnswer answer) : answer_(std::move(answer)), listener_(socket(AF_INET, SOCK_STREAM, 0)) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  TY_CHECK(bind(listener_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
  TY_CHECK(listen(listener_, 16) == 0);
  socklen_t size = sizeof address;
  getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size);
  port_ = ntohs(address.sin_port);
  thread_ = std::thread([this] { Serve(); });
}

RawServer::~RawServer() {
  shutdown(listener_, SHUT_RDWR);
  thread_.join();
  close(listener_);
}

std::string RawServer::Url() const { return "http://127.0.0.1:" + std::to_string(port_); }

void RawServer::Serve() {
  while (true) {
    const int peer = accept(listener_, nullptr, nullptr);
    if (peer < 0) return;
    char request[4096];
    if (recv(peer, request, sizeof request, 0) > 0) Answer(peer);
    close(peer);
  }
}

void RawServer::Answer(int peer) {
  if (send(peer, answer_.bytes.data(), answer_.bytes.size(), MSG_NOSIGNAL) < 0) return;
  if (answer_.sent) answer_.sent();
  while (!answer_.again.empty()) {
    if (answer_.pause.count() > 0 && IsGone(peer, answer_.pause)) return;
    if (send(peer, answer_.again.data(), answer_.again.size(), MSG_NOSIGNAL) < 0) return;
  }
  while (!answer_.close_after && !IsGone(peer, std::chrono::hours(1))) {
  }
}

}  // namespace trainyard::control
