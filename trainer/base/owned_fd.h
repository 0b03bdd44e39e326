// A file descriptor that is closed with its owner.
#pragma once

#include <unistd.h>

#include <utility>

namespace trainyard::engine {

class OwnedFd {
 public:
  explicit OwnedFd(int fd) : fd_(fd) {}
  OwnedFd(OwnedFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  OwnedFd& operator=(OwnedFd&&) = delete;
  ~OwnedFd() {
    if (fd_ >= 0) close(fd_);
  }

  int get() const { return fd_; }  // negative: none
  int Release() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

}  // namespace trainyard::engine
