#include "trainer/transport/shared_segment.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <openssl/rand.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <cstring>
#include <string>
#include <type_traits>
#include <utility>

#include "trainer/base/check.h"
#include "trainer/base/status_macros.h"

namespace trainyard::engine {
namespace {

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;  // a file that shrinks would kill the process that reads its end
constexpr size_t kPage = 4096;
constexpr size_t kLayout = 2 * kPage;

absl::Status SystemError(absl::StatusCode code, const std::string& what) {
  return {code, fmt::format("shared memory: {}: {}", what, std::strerror(errno))};
}

SegmentToken RandomToken() {
  SegmentToken token;
  TY_CHECK(RAND_bytes(reinterpret_cast<unsigned char*>(token.data()), token.size()) == 1);
  return token;
}

// Of a segment: the layout, both rings, both arenas.
size_t SizeFor(uint32_t ring_bytes) { return kLayout + 2 * (1 + SharedSegment::kArenaRings) * size_t{ring_bytes}; }

bool IsRingSize(uint32_t bytes) { return std::has_single_bit(bytes) && bytes >= kPage && bytes <= SharedSegment::kMostRingBytes; }

}  // namespace

// Side 0 is the maker's. The number of a ring or an arena is its writer's.
struct SharedSegment::Layout {
  SegmentToken token;
  SegmentToken answer;
  struct Side {
    Doorbell bell;
    alignas(64) std::atomic<uint32_t> wants_room;
    RingPositions written_by;
    ArenaState filled_by;
    LoanState lent_by;
    LentMemoryPlace memory;
    std::atomic<uint32_t> reads_other;  // has mapped the other side's memory
  };
  std::array<Side, 2> sides;
};

absl::StatusOr<MachineIdentity> ThisMachine() {
  MachineIdentity machine{};
  const OwnedFd boot(open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC));
  if (boot.get() < 0 || read(boot.get(), machine.boot.data(), machine.boot.size()) != static_cast<ssize_t>(machine.boot.size())) {
    return SystemError(absl::StatusCode::kUnavailable, "/proc/sys/kernel/random/boot_id");
  }
  struct stat processes{};
  if (stat("/proc/self/ns/pid", &processes) != 0) return SystemError(absl::StatusCode::kUnavailable, "/proc/self/ns/pid");
  machine.process_ids_namespace = processes.st_ino;
  return machine;
}

static_assert(std::is_trivially_copyable_v<SegmentOffer> && std::has_unique_object_representations_v<SegmentOffer>);

Payload ToPayload(const SegmentOffer& offer) {
  std::string bytes(sizeof(offer), '\0');
  std::memcpy(bytes.data(), &offer, sizeof(offer));
  return Payload::OfText(std::move(bytes));
}

std::optional<SegmentOffer> SegmentOfferOf(const Payload& payload) {
  SegmentOffer offer;
  if (payload.size() != sizeof(offer)) return std::nullopt;
  PayloadReader(payload).Read(std::as_writable_bytes(std::span(&offer, 1)));
  return offer;
}

absl::StatusOr<std::unique_ptr<SharedSegment>> SharedSegment::Map(OwnedFd file, uint32_t ring_bytes, bool maker) {
  void* const memory = mmap(nullptr, SizeFor(ring_bytes), PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  if (memory == MAP_FAILED) return SystemError(absl::StatusCode::kUnavailable, fmt::format("mmap of {} bytes", SizeFor(ring_bytes)));
  return std::unique_ptr<SharedSegment>(new SharedSegment(std::move(file), memory, ring_bytes, maker));
}

absl::StatusOr<std::unique_ptr<SharedSegment>> SharedSegment::Create(uint32_t ring_bytes) {
  static_assert(sizeof(Layout) <= kLayout);
  TY_CHECK(IsRingSize(ring_bytes));
  OwnedFd file(memfd_create("trainyard", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (file.get() < 0) return SystemError(absl::StatusCode::kUnavailable, "memfd_create");
  if (ftruncate(file.get(), static_cast<off_t>(SizeFor(ring_bytes))) != 0 || fcntl(file.get(), F_ADD_SEALS, kSeals) != 0) {
    return SystemError(absl::StatusCode::kUnavailable, fmt::format("a memfd of {} bytes", SizeFor(ring_bytes)));
  }
  TY_ASSIGN_OR_RETURN(std::unique_ptr<SharedSegment> segment, Map(std::move(file), ring_bytes, /*maker=*/true));
  segment->layout().token = RandomToken();
  segment->layout().answer = RandomToken();
  return segment;
}

absl::StatusOr<std::unique_ptr<SharedSegment>> SharedSegment::Open(const SegmentOffer& offer) {
  TY_ASSIGN_OR_RETURN(const MachineIdentity here, ThisMachine());
  if (!(here == offer.machine))
    return absl::NotFoundError("shared memory: the other process is on another machine or in another container");
  if (!IsRingSize(offer.ring_bytes)) {
    return absl::InvalidArgumentError(
        fmt::format("shared memory: rings of {} bytes, expected a power of two from {} to {}", offer.ring_bytes, kPage, kMostRingBytes));
  }
  const std::string path = fmt::format("/proc/{}/fd/{}", offer.process, offer.file);
  OwnedFd file(open(path.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (file.get() < 0) return SystemError(absl::StatusCode::kUnavailable, path);
  const int seals = fcntl(file.get(), F_GET_SEALS);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0) {
    return absl::InvalidArgumentError(fmt::format("shared memory: {} is not a memfd that is sealed against shrinking", path));
  }
  struct stat found{};
  if (fstat(file.get(), &found) != 0) return SystemError(absl::StatusCode::kUnavailable, path);
  const size_t expected = SizeFor(offer.ring_bytes);
  if (found.st_size != static_cast<off_t>(expected)) {
    return absl::InvalidArgumentError(fmt::format("shared memory: {} has {} bytes, expected {}", path, found.st_size, expected));
  }
  TY_ASSIGN_OR_RETURN(std::unique_ptr<SharedSegment> segment, Map(std::move(file), offer.ring_bytes, /*maker=*/false));
  segment->Close();
  if (segment->layout().token != offer.token) {
    return absl::InvalidArgumentError(fmt::format("shared memory: {} is not the file that was offered: its token is another one", path));
  }
  return segment;
}

SharedSegment::~SharedSegment() { (void)munmap(memory_, SizeFor(ring_bytes_)); }

absl::StatusOr<SegmentOffer> SharedSegment::Offer() const {
  TY_CHECK(maker_ && file_.has_value());
  SegmentOffer offer{};
  TY_ASSIGN_OR_RETURN(offer.machine, ThisMachine());
  offer.token = layout().token;
  offer.process = getpid();
  offer.file = file_->get();
  offer.ring_bytes = ring_bytes_;
  return offer;
}

void SharedSegment::Close() { file_.reset(); }

SharedSegment::Layout& SharedSegment::layout() const { return *static_cast<Layout*>(memory_); }
std::span<std::byte> SharedSegment::Ring(size_t side) const {
  return {static_cast<std::byte*>(memory_) + kLayout + side * ring_bytes_, ring_bytes_};
}
std::span<std::byte> SharedSegment::Arena(size_t side) const {
  return {static_cast<std::byte*>(memory_) + kLayout + 2 * size_t{ring_bytes_} + side * arena_bytes(), arena_bytes()};
}

const SegmentToken& SharedSegment::answer() const { return layout().answer; }

void SharedSegment::LendMemory(const LendableMemory& memory) {
  layout().sides[own()].memory = {.process = getpid(), .file = memory.file(), .bytes = memory.size()};
}

std::shared_ptr<const LentMemory> SharedSegment::BorrowMemory() const {
  const LentMemoryPlace place = layout().sides[1 - own()].memory;
  if (place.bytes == 0) return nullptr;
  const absl::StatusOr<std::shared_ptr<const LentMemory>> memory = LentMemory::Open(place);
  if (!memory.ok()) return nullptr;  // tensors come through the arena
  layout().sides[own()].reads_other.store(1, std::memory_order_release);
  return *memory;
}

bool SharedSegment::lends() const { return layout().sides[1 - own()].reads_other.load(std::memory_order_acquire) != 0; }
LoanState& SharedSegment::own_loans() const { return layout().sides[own()].lent_by; }
LoanState& SharedSegment::other_loans() const { return layout().sides[1 - own()].lent_by; }

RingWriter SharedSegment::Writer() const { return {layout().sides[own()].written_by, Ring(own())}; }
RingReader SharedSegment::Reader() const { return {layout().sides[1 - own()].written_by, Ring(1 - own())}; }
ArenaWriter SharedSegment::Filler() const { return {layout().sides[own()].filled_by, Arena(own())}; }
ArenaReader SharedSegment::Borrower() const { return {layout().sides[1 - own()].filled_by, Arena(1 - own())}; }
Doorbell& SharedSegment::own_bell() const { return layout().sides[own()].bell; }
Doorbell& SharedSegment::other_bell() const { return layout().sides[1 - own()].bell; }
std::atomic<uint32_t>& SharedSegment::own_want() const { return layout().sides[own()].wants_room; }
std::atomic<uint32_t>& SharedSegment::other_want() const { return layout().sides[1 - own()].wants_room; }

}  // namespace trainyard::engine
