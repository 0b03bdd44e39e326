#include "trainer/transport/byte_ring.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define TRAINYARD_THREAD_SANITIZER
#include <sanitizer/tsan_interface.h>
#endif
#endif

namespace trainyard::engine {
namespace {

// ThreadSanitizer tells memory by its address. Where a test has both ends in one process, they have
// mapped the ring at two addresses. It would not see that bytes were written before they are read.
// One place stands for all rings.
#ifdef TRAINYARD_THREAD_SANITIZER
char all_rings;
void AfterLoad() { __tsan_acquire(&all_rings); }
void BeforeStore() { __tsan_release(&all_rings); }
#else
void AfterLoad() {}
void BeforeStore() {}
#endif

}  // namespace

absl::StatusOr<size_t> RingWriter::Room() const {
  const uint64_t unread = written_ - positions_.read.load(std::memory_order_seq_cst);
  AfterLoad();
  if (unread <= bytes_.size()) return bytes_.size() - unread;
  return absl::DataLossError(
      fmt::format("shared memory: the reader has read {} bytes more than were written", positions_.read.load() - written_));
}

absl::StatusOr<size_t> RingWriter::Write(std::span<const std::byte> from) {
  const absl::StatusOr<size_t> room = Room();
  if (!room.ok()) return room.status();
  const size_t count = std::min(*room, from.size());
  if (count == 0) return 0;
  const size_t begin = written_ & (bytes_.size() - 1);
  const size_t first = std::min(count, bytes_.size() - begin);
  std::memcpy(bytes_.data() + begin, from.data(), first);
  std::memcpy(bytes_.data(), from.data() + first, count - first);
  written_ += count;
  BeforeStore();
  positions_.written.store(written_, std::memory_order_seq_cst);
  return count;
}

absl::StatusOr<size_t> RingReader::Available() const {
  const uint64_t unread = positions_.written.load(std::memory_order_seq_cst) - read_;
  AfterLoad();
  if (unread <= bytes_.size()) return unread;
  return absl::DataLossError(fmt::format("shared memory: {} bytes were written into a ring of {}", unread, bytes_.size()));
}

absl::StatusOr<size_t> RingReader::Read(std::span<std::byte> to) {
  const absl::StatusOr<size_t> available = Available();
  if (!available.ok()) return available.status();
  const size_t count = std::min(*available, to.size());
  if (count == 0) return 0;
  const size_t begin = read_ & (bytes_.size() - 1);
  const size_t first = std::min(count, bytes_.size() - begin);
  std::memcpy(to.data(), bytes_.data() + begin, first);
  std::memcpy(to.data() + first, bytes_.data(), count - first);
  read_ += count;
  BeforeStore();
  positions_.read.store(read_, std::memory_order_seq_cst);
  return count;
}

}  // namespace trainyard::engine
