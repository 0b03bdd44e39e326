#include "trainer/base/lendable_memory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/falloc.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <string>
#include <utility>

#include "trainer/base/check.h"

namespace trainyard::engine {
namespace {

absl::Status SystemError(const std::string& what) {
  return absl::UnavailableError(fmt::format("memory to lend: {}: {}", what, std::strerror(errno)));
}

}  // namespace

absl::StatusOr<std::shared_ptr<LendableMemory>> LendableMemory::Create(size_t bytes) {
  TY_CHECK(bytes > 0 && bytes % kPage == 0);
  rlimit files{};
  if (getrlimit(RLIMIT_FSIZE, &files) != 0 || files.rlim_cur < bytes) {  // a longer file would end the process (setrlimit(2))
    return absl::UnavailableError(fmt::format("memory to lend: files may have {} bytes, expected {}", files.rlim_cur, bytes));
  }
  OwnedFd file(memfd_create("trainyard-lent", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (file.get() < 0) return SystemError("memfd_create");
  if (ftruncate(file.get(), static_cast<off_t>(bytes)) != 0 ||
      fcntl(file.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    return SystemError(fmt::format("a memfd of {} bytes", bytes));
  }
  void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  if (memory == MAP_FAILED) return SystemError(fmt::format("mmap of {} bytes", bytes));
  return std::shared_ptr<LendableMemory>(new LendableMemory(std::move(file), {static_cast<std::byte*>(memory), bytes}));
}

LendableMemory::LendableMemory(OwnedFd file, std::span<std::byte> memory) : file_(std::move(file)), memory_(memory) {
  absl::MutexLock lock(&mutex_);
  free_.emplace(0, memory.size());
}

LendableMemory::~LendableMemory() { (void)munmap(memory_.data(), memory_.size()); }

std::shared_ptr<std::byte> LendableMemory::Take(size_t bytes) {
  if (bytes == 0 || bytes > memory_.size()) return nullptr;
  const size_t size = (bytes + kPage - 1) / kPage * kPage;
  size_t begin = 0;
  {
    absl::MutexLock lock(&mutex_);
    const auto found = std::ranges::find_if(free_, [&](const auto& range) { return range.second - range.first >= size; });
    if (found == free_.end()) return nullptr;
    begin = found->first;
    const size_t end = found->second;
    free_.erase(found);
    if (begin + size < end) free_.emplace(begin + size, end);
  }
  return {memory_.data() + begin, [self = shared_from_this(), begin, size](std::byte* /*memory*/) { self->Return(begin, size); }};
}

void LendableMemory::Return(size_t begin, size_t bytes) {
  if (kept_.load(std::memory_order_acquire)) return;
  // The pages go back to the system, and the next owner finds zeros.
  if (fallocate(file_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(begin), static_cast<off_t>(bytes)) != 0) {
    std::memset(memory_.data() + begin, 0, bytes);
  }
  absl::MutexLock lock(&mutex_);
  size_t end = begin + bytes;
  auto next = free_.upper_bound(begin);
  if (next != free_.end() && next->first == end) {
    end = next->second;
    next = free_.erase(next);
  }
  if (next != free_.begin() && std::prev(next)->second == begin) {
    std::prev(next)->second = end;
  } else {
    free_.emplace(begin, end);
  }
}

std::optional<uint64_t> LendableMemory::OffsetOf(std::span<const std::byte> piece) const {
  const auto begin = reinterpret_cast<uintptr_t>(piece.data());
  const auto base = reinterpret_cast<uintptr_t>(memory_.data());
  if (begin < base || begin - base > memory_.size() || piece.size() > memory_.size() - (begin - base)) return std::nullopt;
  return begin - base;
}

}  // namespace trainyard::engine
