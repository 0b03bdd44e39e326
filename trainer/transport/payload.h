// Bytes of a record, wherever they lie: one or more pieces of memory, each kept alive by its owner.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace trainyard::engine {

// Immutable, cheap to move and to copy (the bytes are shared, never copied). The pieces may start
// at any address.
class Payload {
 public:
  Payload() = default;
  // One piece. It stays valid as long as `owner`, which may be null for memory that outlives every
  // copy of the payload.
  Payload(std::span<const std::byte> piece, std::shared_ptr<const void> owner);
  Payload(std::vector<std::span<const std::byte>> pieces, std::shared_ptr<const void> owner);
  static Payload OfText(std::string text);

  size_t size() const { return size_; }
  std::span<const std::span<const std::byte>> pieces() const { return pieces_; }
  const std::shared_ptr<const void>& owner() const { return owner_; }
  // Another owner, which keeps the bytes alive in its turn.
  void HoldBy(std::shared_ptr<const void> owner) { owner_ = std::move(owner); }
  // All bytes, copied.
  std::string ToString() const;

 private:
  std::vector<std::span<const std::byte>> pieces_;
  std::shared_ptr<const void> owner_;
  size_t size_ = 0;
};

// Reads a payload from front to back. The payload must outlive it.
class PayloadReader {
 public:
  explicit PayloadReader(const Payload& payload) : pieces_(payload.pieces()) {}
  // Copies the next out.size() bytes; they must be there.
  void Read(std::span<std::byte> out);
  // The same, past the caches (copy_past_caches.h).
  void ReadPastCaches(std::span<std::byte> out);
  // Leaves out the next `count` bytes; they must be there.
  void Skip(size_t count);
  // The next `count` bytes: in place where they lie in one piece, else copied to `scratch` (at
  // least `count` long).
  std::span<const std::byte> Bytes(size_t count, std::span<std::byte> scratch);
  // The next `count` floats: in place where they lie in one aligned piece, else copied to `scratch`
  // (at least `count` long).
  std::span<const float> Floats(size_t count, std::span<float> scratch);

 private:
  template <typename Copy>
  void ReadBy(Copy copy, std::span<std::byte> out);

  std::span<const std::span<const std::byte>> pieces_;
  size_t piece_ = 0;
  size_t offset_ = 0;
};

}  // namespace trainyard::engine
