// Large allocations whose failure is an error that says what the memory was for, not the end of the
// process.
#pragma once

#include <cstdint>
#include <new>
#include <string_view>
#include <type_traits>

#include "absl/status/status.h"

namespace trainyard::engine {

// ResourceExhausted: "cannot get 1.2 GB of memory for <what>: …", with what the limits leave.
// `bytes` 0: not known beforehand.
absl::Status NoMemoryFor(std::string_view what, int64_t bytes);
// The same where `bytes` more than the limits of this process leave (memory_room.h); else OK.
absl::Status CheckMemoryFor(std::string_view what, int64_t bytes);

// A failed allocation that tells its size.
class MemoryShortage final : public std::bad_alloc {
 public:
  explicit MemoryShortage(int64_t bytes) : bytes_(bytes) {}
  int64_t bytes() const { return bytes_; }

 private:
  const int64_t bytes_;
};

// The result of `work`, a Status or StatusOr; NoMemoryFor when it cannot get its memory. `bytes` is
// the most that it allocates, 0 where that is not known beforehand: then the error tells the
// allocation that failed, if it is a MemoryShortage.
template <typename Work>
std::invoke_result_t<Work> WithMemoryFor(std::string_view what, int64_t bytes, Work&& work) {
  if (absl::Status room = CheckMemoryFor(what, bytes); !room.ok()) return room;
  try {
    return work();
  } catch (const MemoryShortage& shortage) {
    return NoMemoryFor(what, bytes > 0 ? bytes : shortage.bytes());
  } catch (const std::bad_alloc&) {
    return NoMemoryFor(what, bytes);
  }
}

}  // namespace trainyard::engine
