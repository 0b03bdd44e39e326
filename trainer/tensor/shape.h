// The extents of a tensor, outermost first (C order). Images are NHWC, convolution kernels HWIO,
// dense weights [in, out], as in Keras.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

#include "trainer/base/check.h"

namespace trainyard::engine {

// Up to kMaxRank extents, each >= 0, held inline: copying never allocates. Rank 0 is a scalar of
// one element.
class Shape {
 public:
  static constexpr int kMaxRank = 8;

  Shape() = default;
  Shape(std::initializer_list<int64_t> extents) : Shape(std::span(extents.begin(), extents.size())) {}
  explicit Shape(std::span<const int64_t> extents) : rank_(static_cast<int>(extents.size())) {
    TY_CHECK(extents.size() <= kMaxRank);
    for (int i = 0; i < rank_; ++i) extents_[i] = extents[i];
  }

  int rank() const { return rank_; }
  int64_t operator[](int axis) const { return extents_[axis < 0 ? axis + rank_ : axis]; }
  void Set(int axis, int64_t extent) { extents_[axis < 0 ? axis + rank_ : axis] = extent; }
  std::span<const int64_t> extents() const { return {extents_.data(), static_cast<size_t>(rank_)}; }
  // The product of all extents.
  int64_t elements() const {
    int64_t product = 1;
    for (int64_t extent : extents()) product *= extent;
    return product;
  }
  // "[128, 28, 28, 1]"
  std::string ToString() const;

  friend bool operator==(const Shape& a, const Shape& b) {
    if (a.rank_ != b.rank_) return false;
    for (int i = 0; i < a.rank_; ++i) {
      if (a.extents_[i] != b.extents_[i]) return false;
    }
    return true;
  }

 private:
  std::array<int64_t, kMaxRank> extents_{};
  int rank_ = 0;
};

}  // namespace trainyard::engine
