// A disk for tests: the real disk, with faults. It can be slow or full, it can be unable to
// exchange, and it can end the process.
#pragma once

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "trainer/base/disk.h"
#include "trainer/base/status_macros.h"

namespace trainyard::engine {

// Thread-safe once it is set up.
class FaultyDisk final : public Disk {
 public:
  // Called before each operation, and in the middle of each Append: with the operation's number,
  // from 0. Its result is the operation's error.
  std::function<absl::Status(int operation)> before = [](int) { return absl::OkStatus(); };
  // Called with the bytes of each Append, before it.
  std::function<void(size_t bytes)> on_append = [](size_t) {};
  bool can_exchange = true;

  int operations() const { return operations_; }
  size_t largest_append() const { return largest_append_; }

  absl::StatusOr<std::unique_ptr<FileSink>> Create(const std::string& path) override {
    TY_RETURN_IF_ERROR(Next());
    TY_ASSIGN_OR_RETURN(std::unique_ptr<FileSink> sink, RealDisk().Create(path));
    return std::make_unique<Sink>(*this, std::move(sink));
  }
  absl::Status Rename(const std::string& from, const std::string& to) override {
    TY_RETURN_IF_ERROR(Next());
    return RealDisk().Rename(from, to);
  }
  absl::Status Exchange(const std::string& a, const std::string& b) override {
    TY_RETURN_IF_ERROR(Next());
    return can_exchange ? RealDisk().Exchange(a, b) : absl::UnimplementedError("this disk cannot exchange");
  }
  absl::Status SyncFolder(const std::string& path) override {
    TY_RETURN_IF_ERROR(Next());
    return RealDisk().SyncFolder(path);
  }

 private:
  class Sink final : public FileSink {
   public:
    Sink(FaultyDisk& disk, std::unique_ptr<FileSink> sink) : disk_(disk), sink_(std::move(sink)) {}
    absl::Status Append(std::string_view bytes) override {
      disk_.largest_append_ = std::max<size_t>(disk_.largest_append_, bytes.size());
      disk_.on_append(bytes.size());
      TY_RETURN_IF_ERROR(sink_->Append(bytes.substr(0, bytes.size() / 2)));
      TY_RETURN_IF_ERROR(disk_.Next());
      return sink_->Append(bytes.substr(bytes.size() / 2));
    }
    absl::Status Sync() override {
      TY_RETURN_IF_ERROR(disk_.Next());
      return sink_->Sync();
    }

   private:
    FaultyDisk& disk_;
    const std::unique_ptr<FileSink> sink_;
  };

  absl::Status Next() { return before(operations_++); }

  std::atomic<int> operations_ = 0;
  std::atomic<size_t> largest_append_ = 0;
};

}  // namespace trainyard::engine
