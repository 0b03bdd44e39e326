// Memory that two processes of one machine share: for each direction a ring of bytes, an arena of
// blocks for what is too long for a ring, and a bell.
//
// It has no name in any file system: it is a sealed memfd (memfd_create(2)), which the other
// process opens as /proc/<pid>/fd/<fd>. So it is not bounded by the size of /dev/shm, and nothing
// of it is left when both processes end, however they end.
#pragma once

#include <sys/types.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "absl/status/statusor.h"
#include "trainer/base/lendable_memory.h"
#include "trainer/base/owned_fd.h"
#include "trainer/transport/block_arena.h"
#include "trainer/transport/byte_ring.h"
#include "trainer/transport/doorbell.h"
#include "trainer/transport/lent_memory.h"
#include "trainer/transport/loan_book.h"
#include "trainer/transport/payload.h"

namespace trainyard::engine {

using SegmentToken = std::array<std::byte, 16>;

// Processes that have this in common can open each other's files: the kernel and the process ids.
struct MachineIdentity {
  std::array<char, 36> boot;       // /proc/sys/kernel/random/boot_id, a new one at each boot
  uint32_t reserved;               // 0
  uint64_t process_ids_namespace;  // inode of /proc/self/ns/pid
  friend bool operator==(const MachineIdentity&, const MachineIdentity&) = default;
};
// Unavailable says what cannot be read.
absl::StatusOr<MachineIdentity> ThisMachine();

// How another process finds a segment. Travels as its bytes, in host order: it is of use on one
// machine only.
struct SegmentOffer {
  MachineIdentity machine;
  SegmentToken token;
  int64_t process;
  int32_t file;
  uint32_t ring_bytes;
};

Payload ToPayload(const SegmentOffer& offer);
// None: another size.
std::optional<SegmentOffer> SegmentOfferOf(const Payload& payload);

// One process's mapping.
class SharedSegment {
 public:
  static constexpr uint32_t kMostRingBytes = 64u << 20;
  static constexpr size_t kArenaRings = 4;  // an arena has as many bytes as so many rings

  // `ring_bytes`: a power of two, 4096 to kMostRingBytes. Unavailable says why there can be none.
  static absl::StatusOr<std::unique_ptr<SharedSegment>> Create(uint32_t ring_bytes);
  // Maps what another process has made. NotFound: it is on another machine or in another container.
  // Unavailable, InvalidArgument: the file cannot be opened, or is not what was offered.
  static absl::StatusOr<std::unique_ptr<SharedSegment>> Open(const SegmentOffer& offer);
  ~SharedSegment();
  SharedSegment(const SharedSegment&) = delete;
  SharedSegment& operator=(const SharedSegment&) = delete;

  // Of the maker; good until Close.
  absl::StatusOr<SegmentOffer> Offer() const;
  void Close();
  // Known only to processes that have mapped the segment.
  const SegmentToken& answer() const;

  // Tells the other side where it can read `memory`, which must outlive the segment. Before the
  // other side calls BorrowMemory.
  void LendMemory(const LendableMemory& memory);
  // Maps what the other side lends. Null: it lends nothing, or that cannot be mapped. From then on
  // the other side may send payloads that lie there.
  std::shared_ptr<const LentMemory> BorrowMemory() const;
  // The other side has done that with this side's memory.
  bool lends() const;
  LoanState& own_loans() const;
  LoanState& other_loans() const;

  RingWriter Writer() const;
  RingReader Reader() const;
  ArenaWriter Filler() const;
  ArenaReader Borrower() const;
  Doorbell& own_bell() const;
  Doorbell& other_bell() const;
  // This side waits for room in the ring that the other side reads.
  std::atomic<uint32_t>& own_want() const;
  std::atomic<uint32_t>& other_want() const;

 private:
  struct Layout;
  SharedSegment(OwnedFd file, void* memory, uint32_t ring_bytes, bool maker)
      : file_(std::move(file)), memory_(memory), ring_bytes_(ring_bytes), maker_(maker) {}
  static absl::StatusOr<std::unique_ptr<SharedSegment>> Map(OwnedFd file, uint32_t ring_bytes, bool maker);
  Layout& layout() const;
  size_t own() const { return maker_ ? 0 : 1; }
  size_t arena_bytes() const { return kArenaRings * ring_bytes_; }
  std::span<std::byte> Ring(size_t side) const;
  std::span<std::byte> Arena(size_t side) const;

  std::optional<OwnedFd> file_;
  void* const memory_;
  const uint32_t ring_bytes_;
  const bool maker_;
};

}  // namespace trainyard::engine
