#include "trainer/transport/payload.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>

#include "trainer/base/check.h"
#include "trainer/base/copy_past_caches.h"

namespace trainyard::engine {

Payload::Payload(std::span<const std::byte> piece, std::shared_ptr<const void> owner) : owner_(std::move(owner)), size_(piece.size()) {
  if (!piece.empty()) pieces_.push_back(piece);
}

Payload::Payload(std::vector<std::span<const std::byte>> pieces, std::shared_ptr<const void> owner)
    : pieces_(std::move(pieces)), owner_(std::move(owner)) {
  for (const std::span<const std::byte> piece : pieces_) size_ += piece.size();
}

Payload Payload::OfText(std::string text) {
  auto owner = std::make_shared<const std::string>(std::move(text));
  const std::span<const std::byte> bytes = std::as_bytes(std::span(*owner));
  return {bytes, std::move(owner)};
}

std::string Payload::ToString() const {
  std::string text;
  text.reserve(size_);
  for (const std::span<const std::byte> piece : pieces_) text.append(reinterpret_cast<const char*>(piece.data()), piece.size());
  return text;
}

template <typename Copy>
void PayloadReader::ReadBy(Copy copy, std::span<std::byte> out) {
  while (!out.empty()) {
    TY_CHECK(piece_ < pieces_.size());
    const std::span<const std::byte> rest = pieces_[piece_].subspan(offset_);
    const size_t count = std::min(rest.size(), out.size());
    if (count > 0) copy(rest.first(count), out);
    out = out.subspan(count);
    offset_ += count;
    if (offset_ == pieces_[piece_].size()) {
      ++piece_;
      offset_ = 0;
    }
  }
}

void PayloadReader::Read(std::span<std::byte> out) {
  ReadBy([](std::span<const std::byte> from, std::span<std::byte> to) { std::memcpy(to.data(), from.data(), from.size()); }, out);
}

void PayloadReader::ReadPastCaches(std::span<std::byte> out) { ReadBy(CopyPastCaches, out); }

void PayloadReader::Skip(size_t count) {
  while (count > 0) {
    TY_CHECK(piece_ < pieces_.size());
    const size_t step = std::min(pieces_[piece_].size() - offset_, count);
    count -= step;
    offset_ += step;
    if (offset_ == pieces_[piece_].size()) {
      ++piece_;
      offset_ = 0;
    }
  }
}

std::span<const std::byte> PayloadReader::Bytes(size_t count, std::span<std::byte> scratch) {
  if (count > 0 && piece_ < pieces_.size()) {
    const std::span<const std::byte> rest = pieces_[piece_].subspan(offset_);
    if (rest.size() >= count) {
      Skip(count);
      return rest.first(count);
    }
  }
  TY_CHECK(count <= scratch.size());
  Read(scratch.first(count));
  return scratch.first(count);
}

std::span<const float> PayloadReader::Floats(size_t count, std::span<float> scratch) {
  if (count > 0 && piece_ < pieces_.size()) {
    const std::span<const std::byte> rest = pieces_[piece_].subspan(offset_);
    if (rest.size() >= count * sizeof(float) && reinterpret_cast<uintptr_t>(rest.data()) % alignof(float) == 0) {
      offset_ += count * sizeof(float);
      return {reinterpret_cast<const float*>(rest.data()), count};
    }
  }
  TY_CHECK(count <= scratch.size());
  Read(std::as_writable_bytes(scratch.first(count)));
  return scratch.first(count);
}

}  // namespace trainyard::engine
