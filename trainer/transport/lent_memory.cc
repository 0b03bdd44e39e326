#include "trainer/transport/lent_memory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "trainer/base/lendable_memory.h"
#include "trainer/base/owned_fd.h"

namespace trainyard::engine {

absl::StatusOr<std::shared_ptr<const LentMemory>> LentMemory::Open(const LentMemoryPlace& place) {
  const auto failed = [](const std::string& what) {
    return absl::UnavailableError(fmt::format("lent memory: {}: {}", what, std::strerror(errno)));
  };
  if (place.bytes == 0 || place.bytes > LendableMemory::kMostBytes) {
    return absl::InvalidArgumentError(
        fmt::format("lent memory: {} bytes, expected at most {}", place.bytes, size_t{LendableMemory::kMostBytes}));
  }
  const std::string path = fmt::format("/proc/{}/fd/{}", place.process, place.file);
  const OwnedFd file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (file.get() < 0) return failed(path);
  const int seals = fcntl(file.get(), F_GET_SEALS);
  struct stat found{};
  if (fstat(file.get(), &found) != 0) return failed(path);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0 || found.st_size != static_cast<off_t>(place.bytes)) {
    return absl::InvalidArgumentError(
        fmt::format("lent memory: {} is not a memfd of {} bytes that is sealed against shrinking", path, place.bytes));
  }
  void* const memory = mmap(nullptr, place.bytes, PROT_READ, MAP_SHARED, file.get(), 0);
  if (memory == MAP_FAILED) return failed(fmt::format("mmap of {} bytes", place.bytes));
  return std::shared_ptr<const LentMemory>(new LentMemory({static_cast<const std::byte*>(memory), place.bytes}));
}

LentMemory::~LentMemory() { (void)munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size()); }

}  // namespace trainyard::engine
