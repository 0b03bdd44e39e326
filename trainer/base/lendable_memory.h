// Memory of this process that other processes of the machine may be let read where it lies.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "trainer/base/owned_fd.h"

namespace trainyard::engine {

// A memfd (memfd_create(2)) that can neither shrink nor grow: whoever has its descriptor can map it
// without a risk. It has no name in a file system. Thread-safe.
class LendableMemory : public std::enable_shared_from_this<LendableMemory> {
 public:
  static constexpr size_t kPage = 4096;
  // A process that reads it counts it as its own too, so there is no more of it than this.
  static constexpr size_t kMostBytes = 32 << 20;

  // Of `bytes`, a multiple of kPage. The kernel gives a page when it is first written. Unavailable
  // says why there can be none.
  static absl::StatusOr<std::shared_ptr<LendableMemory>> Create(size_t bytes = kMostBytes);
  ~LendableMemory();
  LendableMemory(const LendableMemory&) = delete;
  LendableMemory& operator=(const LendableMemory&) = delete;

  // `bytes` of it, zeroed, from the start of a page, until the last owner lets go. Null: so much is
  // not free side by side.
  std::shared_ptr<std::byte> Take(size_t bytes);
  // From now on nothing of it is given back to the system or taken again: another process may go on
  // reading values that it was lent, as it does after this process has ended.
  void KeepAll() { kept_.store(true, std::memory_order_release); }
  // Where `piece` begins in it. Nothing: it lies elsewhere.
  std::optional<uint64_t> OffsetOf(std::span<const std::byte> piece) const;

  int file() const { return file_.get(); }
  size_t size() const { return memory_.size(); }

 private:
  LendableMemory(OwnedFd file, std::span<std::byte> memory);
  void Return(size_t begin, size_t bytes);

  const OwnedFd file_;
  const std::span<std::byte> memory_;
  std::atomic<bool> kept_ = false;
  absl::Mutex mutex_;
  std::map<size_t, size_t> free_ ABSL_GUARDED_BY(mutex_);  // begin → end, never side by side
};

}  // namespace trainyard::engine
