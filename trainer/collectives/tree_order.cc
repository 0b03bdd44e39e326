#include "trainer/collectives/tree_order.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

#include "trainer/base/check.h"

namespace trainyard::engine {
namespace {

// Up to three for each power of four below `ranks`, four of the last one, and memory for Scratch.
size_t MostPartials(size_t ranks) {
  size_t most = 2;
  for (size_t power = 1; power < ranks; power *= 4) most += 3;
  return most;
}

// Floats that a loop takes between two looks ahead, and how far ahead it looks. Contributions lie
// in a row block after block, and hardware stops to fetch at pages of 4 KiB.
constexpr size_t kStride = 64;
constexpr size_t kAhead = 2048;

inline void FetchAhead(const float* from) {
  for (size_t line = 0; line < kStride; line += kBufferAlignment / sizeof(float)) __builtin_prefetch(from + kAhead + line);
}

// to[i] = value(from[i]...), of each where it lies. `to` may be one of them.
template <typename Value, typename... From>
void ForAll(size_t size, float* to, Value value, const From*... from) {
  size_t i = 0;
  for (; i + kStride <= size; i += kStride) {
    (FetchAhead(from + i), ...);
    float results[kStride];
    for (size_t j = 0; j < kStride; ++j) results[j] = value(from[i + j]...);
    std::copy_n(results, kStride, to + i);
  }
  for (; i < size; ++i) to[i] = value(from[i]...);
}

constexpr auto kItself = [](float a) { return a; };
constexpr auto kSumOfTwo = [](float a, float b) { return a + b; };
constexpr auto kSumOfFour = [](float a, float b, float c, float d) { return (a + b) + (c + d); };

// out[i] = dividend(from[i]...) / divisor. A product with the reciprocal of a power of two is that
// quotient, bit for bit, and several times as fast.
template <typename Dividend, typename... From>
void DivideInto(std::span<float> out, float divisor, Dividend dividend, const From*... from) {
  if (divisor == 1) {
    ForAll(out.size(), out.data(), dividend, from...);
  } else if (int exponent = 0; std::frexp(divisor, &exponent) == 0.5F) {
    const float reciprocal = 1 / divisor;
    ForAll(out.size(), out.data(), [&](auto... x) { return dividend(x...) * reciprocal; }, from...);
  } else {
    ForAll(out.size(), out.data(), [&](auto... x) { return dividend(x...) / divisor; }, from...);
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
  stack_.resize(MostPartials(ranks_));
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
  stack_[depth_].values = contribution.data();
  stack_[depth_].ranks = 1;
  ++depth_;
  ++added_;
  // As a counter to the base of four carries. The last four of a power of four wait for Finish:
  // FinishInto adds and divides in one pass.
  while (HasEqualFour() && (added_ < ranks_ || depth_ > 4)) MergeFour();
}

bool TreeSum::HasEqualFour() const { return depth_ >= 4 && stack_[depth_ - 4].ranks == stack_[depth_ - 1].ranks; }

bool TreeSum::AreAllThere(std::span<const Partial> sums) {
  return std::ranges::none_of(sums, [](const Partial& sum) { return sum.values == nullptr; });
}

void TreeSum::MergeFour() {
  const size_t at = depth_ - 4;
  const std::span<Partial, 4> four(&stack_[at], 4);
  if (!AreAllThere(four)) {
    MergeAt(at + 2);
    MergeAt(at);
    return MergeAt(at);
  }
  ForAll(size_, four[0].memory, kSumOfFour, four[0].values, four[1].values, four[2].values, four[3].values);
  four[0].values = four[0].memory;
  four[0].ranks *= 4;
  depth_ -= 3;
}

void TreeSum::MergeAt(size_t at) {
  Partial& left = stack_[at];
  Partial& right = stack_[at + 1];
  const size_t ranks = left.ranks + right.ranks;
  if (left.values == nullptr) {
    std::swap(left, right);  // with their memory, which Scratch gives away above the stack
  } else if (right.values != nullptr) {
    ForAll(size_, left.memory, kSumOfTwo, left.values, right.values);
    left.values = left.memory;
  }
  left.ranks = ranks;
  const auto behind = stack_.begin() + static_cast<std::ptrdiff_t>(at) + 1;
  std::rotate(behind, behind + 1, stack_.begin() + static_cast<std::ptrdiff_t>(depth_));
  --depth_;
}

void TreeSum::MergeTo(size_t most) {
  // Equal halves first, as the tree has them; then the smaller sums, which are on top.
  for (size_t at = 0; at + 1 < depth_; ++at) {
    if (stack_[at].ranks == stack_[at + 1].ranks && depth_ > most) MergeAt(at);
  }
  while (depth_ > most) MergeAt(depth_ - 2);
}

std::span<const float> TreeSum::Finish() {
  MergeTo(1);
  if (depth_ == 0 || stack_[0].values == nullptr) return {};
  return {stack_[0].values, size_};
}

bool TreeSum::FinishInto(std::span<float> out, float divisor) {
  TY_CHECK(out.size() == size_);
  if (HasEqualFour() && AreAllThere(std::span(stack_).first(4))) {
    DivideInto(out, divisor, kSumOfFour, stack_[0].values, stack_[1].values, stack_[2].values, stack_[3].values);
    return true;
  }
  MergeTo(2);
  const float* a = depth_ > 0 ? stack_[0].values : nullptr;
  const float* b = depth_ > 1 ? stack_[1].values : nullptr;
  if (a == nullptr) std::swap(a, b);
  if (a == nullptr) return false;
  if (b != nullptr) {
    DivideInto(out, divisor, kSumOfTwo, a, b);
  } else if (a != out.data() || divisor != 1) {
    DivideInto(out, divisor, kItself, a);
  }
  return true;
}

}  // namespace trainyard::engine
