// RawServer: bytes on a port, as a hostile or broken server would send them.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <thread>

namespace trainyard::control {

// Sends the same bytes to each peer in turn, once it has said something.
struct RawAnswer {
  std::string bytes{};
  std::function<void()> sent{};        // called when they are with the kernel
  std::string again{};                 // then this, over and over, until the peer is gone
  std::chrono::milliseconds pause{0};  // before each of those
  bool close_after = true;             // else silent until the peer is gone
};

// Listens on 127.0.0.1 from construction to destruction.
class RawServer {
 public:
  explicit RawServer(RawAnswer answer);
  ~RawServer();
  RawServer(const RawServer&) = delete;
  RawServer& operator=(const RawServer&) = delete;

  std::string Url() const;
  int port() const { return port_; }

 private:
  void Serve();
  void Answer(int peer);

  const RawAnswer answer_;
  int listener_ = -1;
  int port_ = 0;
  std::thread thread_;
};

}  // namespace trainyard::control
