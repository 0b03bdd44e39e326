#include "trainer/collectives/tree_order.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <utility>

#include "trainer/base/check.h"

namespace trainyard::engine {
namespace {

// Before rank i is added there is one partial sum for each bit that is set in i.
size_t MostPartials(int ranks) { return std::bit_width(static_cast<unsigned>(ranks - 1)) + 1; }

// Floats that a loop takes between two looks ahead, and how far ahead it looks. Contributions lie
// in a row block after block, and hardware stops to fetch at pages of 4 KiB.
constexpr size_t kStride = 64;
constexpr size_t kAhead = 2048;

inline void FetchAhead(const float* from) {
  for (size_t line = 0; line < kStride; line += kBufferAlignment / sizeof(float)) __builtin_prefetch(from + kAhead + line);
}

// to[i] = value(i, a, b), of a and b where they lie. `to` may be one of them.
template <typename Value>
void ForAll(size_t size, const float* a, const float* b, float* to, Value value) {
  size_t i = 0;
  for (; i + kStride <= size; i += kStride) {
    FetchAhead(a + i);
    FetchAhead(b + i);
    float results[kStride];
    for (size_t j = 0; j < kStride; ++j) results[j] = value(a[i + j], b[i + j]);
    std::copy_n(results, kStride, to + i);
  }
  for (; i < size; ++i) to[i] = value(a[i], b[i]);
}

// out[i] = dividend(a[i], b[i]) / divisor. A product with the reciprocal of a power of two is that
// quotient, bit for bit, and several times as fast.
template <typename Dividend>
void DivideInto(std::span<float> out, const float* a, const float* b, Dividend dividend, float divisor) {
  if (divisor == 1) {
    ForAll(out.size(), a, b, out.data(), dividend);
  } else if (int exponent = 0; std::frexp(divisor, &exponent) == 0.5F) {
    const float reciprocal = 1 / divisor;
    ForAll(out.size(), a, b, out.data(), [&](float x, float y) { return dividend(x, y) * reciprocal; });
  } else {
    ForAll(out.size(), a, b, out.data(), [&](float x, float y) { return dividend(x, y) / divisor; });
  }
}

}  // namespace

int TreeSplit(int ranks) {
  TY_CHECK(ranks >= 2);
  return static_cast<int>(std::bit_floor(static_cast<unsigned>(ranks - 1)));
}

TreeSum::TreeSum(int ranks, size_t block) : ranks_(static_cast<size_t>(ranks)) {
  TY_CHECK(ranks >= 1);
  const size_t stride = Aligned(block * sizeof(float));
  stack_.resize(MostPartials(ranks));
  memory_ = Buffer(stack_.size() * stride);
  for (size_t i = 0; i < stack_.size(); ++i) stack_[i].memory = reinterpret_cast<float*>(memory_.data() + i * stride);
}

void TreeSum::Begin(size_t size) {
  size_ = size;
  depth_ = 0;
  added_ = 0;
}

void TreeSum::Add(std::span<const float> contribution) {
  TY_CHECK(contribution.size() == size_);
  Push(contribution);
}

void TreeSum::Push(std::span<const float> contribution) {
  stack_[depth_++].values = contribution.data();
  // As a binary counter carries: after rank i two equal halves meet for each bit that i + 1 clears.
  // The last two halves of a power of two wait for Finish: FinishInto adds and divides in one pass.
  for (size_t carry = ++added_; carry % 2 == 0; carry /= 2) {
    if (added_ == ranks_ && depth_ == 2) break;
    Merge();
  }
}

void TreeSum::Merge() {
  Partial& left = stack_[depth_ - 2];
  Partial& right = stack_[depth_ - 1];
  if (left.values == nullptr) {
    std::swap(left, right);  // with their memory, which Scratch gives away above the stack
  } else if (right.values != nullptr) {
    float* const out = left.memory;
    ForAll(size_, left.values, right.values, out, std::plus<>());
    left.values = out;
  }
  --depth_;
}

std::span<const float> TreeSum::Finish() {
  while (depth_ > 1) Merge();
  if (depth_ == 0 || stack_[0].values == nullptr) return {};
  return {stack_[0].values, size_};
}

bool TreeSum::FinishInto(std::span<float> out, float divisor) {
  TY_CHECK(out.size() == size_);
  while (depth_ > 2) Merge();
  const float* a = depth_ > 0 ? stack_[0].values : nullptr;
  const float* b = depth_ > 1 ? stack_[1].values : nullptr;
  if (a == nullptr) std::swap(a, b);
  if (a == nullptr) return false;
  if (b != nullptr) {
    DivideInto(out, a, b, std::plus<>(), divisor);
  } else if (a != out.data() || divisor != 1) {
    DivideInto(out, a, a, [](float x, float) { return x; }, divisor);
  }
  return true;
}

}  // namespace trainyard::engine
