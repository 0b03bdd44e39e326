// Products that round what they store leave the bits of a product and of the rounding behind it.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <random>
#include <span>
#include <vector>

#include "trainer/backend/cpu/layout.h"
#include "trainer/backend/cpu/select_bf16.h"
#include "trainer/tensor/buffer.h"

namespace trainyard::engine {
namespace {

struct ProductShape {
  int rows, groups, pairs;
};

class RoundedProduct {
 public:
  RoundedProduct(const Bf16Kernels& kernels, const ProductShape& shape) : kernels_(kernels), shape_(shape) {
    std::mt19937 random(static_cast<uint32_t>(shape.rows * 100 + shape.groups * 10 + shape.pairs));
    std::normal_distribution<float> normal;
    const auto fill = [&](Buffer& buffer) {
      const auto values = std::span(buffer.as<uint16_t>(), buffer.bytes().size() / sizeof(uint16_t));
      // The upper half of a float is a bfloat16.
      std::ranges::generate(values, [&] { return static_cast<uint16_t>(std::bit_cast<uint32_t>(normal(random)) >> 16); });
    };
    fill(left_);
    fill(right_);
    fill(added_);
    const std::span<float> bias(bias_.as<float>(), static_cast<size_t>(shape.rows) * kLanes);
    std::ranges::generate(bias, [&] { return normal(random); });
    args_ = {.rows = shape.rows, .block = std::min(shape.rows, kMostTileRows), .pairs = shape.pairs, .groups = shape.groups};
    args_.outer = kOuter;
    args_.inner = kInner;
    args_.a = left_.as<uint16_t>();
    args_.a_row = kOuter * kInner * RunElements();
    args_.a_outer = kInner * RunElements();
    args_.a_inner = RunElements();
    args_.b = right_.as<uint16_t>();
    args_.b_group = kGroupPair;  // the windows of neighbours overlap
    args_.b_outer = (shape.groups + kInner * shape.pairs) * kGroupPair;
    args_.b_inner = shape.pairs * kGroupPair;
    args_.start = bias_.as<float>();
    args_.start_row = args_.c_row = kLanes;
    args_.c_group = int64_t{shape.rows} * kLanes;
  }

  std::vector<uint16_t> InOneStep(bool add, bool relu) {
    std::vector<uint16_t> y(Elements());
    Bf16ProductArgs args = args_;
    args.pairs_to = y.data();
    args.add = add ? added_.as<uint16_t>() : nullptr;
    args.relu = relu;
    kernels_.product_to_pairs(args);
    return y;
  }

  std::vector<uint16_t> InTwoSteps(bool add, bool relu) {
    Buffer sums(Elements() * sizeof(float));
    Bf16ProductArgs args = args_;
    args.c = sums.as<float>();
    kernels_.product(args);
    const Buffer nothing(Elements() * sizeof(uint16_t));
    std::vector<uint16_t> y(Elements());
    const auto vectors = static_cast<int64_t>(Elements()) / kLanes;
    const Activation activation = relu ? Activation::kRelu : Activation::kIdentity;
    kernels_.sum_to_pairs(sums.as<float>(), (add ? added_ : nothing).as<uint16_t>(), y.data(), vectors, activation);
    return y;
  }

 private:
  static constexpr int kOuter = 2, kInner = 3;
  int64_t RunElements() const { return 2 * int64_t{shape_.pairs}; }
  size_t Elements() const { return static_cast<size_t>(shape_.rows) * shape_.groups * kLanes; }

  const Bf16Kernels& kernels_;
  const ProductShape shape_;
  Buffer left_{static_cast<size_t>(shape_.rows) * kOuter * kInner * RunElements() * sizeof(uint16_t)};
  Buffer right_{static_cast<size_t>(kOuter) * (shape_.groups + kInner * shape_.pairs) * kGroupPair * sizeof(uint16_t)};
  Buffer added_{Elements() * sizeof(uint16_t)};
  Buffer bias_{static_cast<size_t>(shape_.rows) * kLanes * sizeof(float)};
  Bf16ProductArgs args_;
};

TEST(Bf16ProductTest, RoundsAsTheStepBehindItWould) {
  int sets = 0;
  for (const Bf16Set& set : RunnableBf16Sets()) {
    if (set.kernels.product_to_pairs == nullptr) continue;
    ++sets;
    for (const int rows : {2, 4, 12, 14, 16, 26, 64}) {
      for (const int groups : {1, 2, 3, 8}) {
        for (const int pairs : {1, 5, 16}) {
          RoundedProduct product(set.kernels, {rows, groups, pairs});
          for (const bool add : {false, true}) {
            for (const bool relu : {false, true}) {
              EXPECT_EQ(product.InOneStep(add, relu), product.InTwoSteps(add, relu))
                  << set.isa << ": " << rows << " rows, " << groups << " groups, " << pairs << " pairs, add " << add << ", relu " << relu;
            }
          }
        }
      }
    }
  }
  if (sets == 0) GTEST_SKIP() << "no kernels of this machine round what they store: AVX512-BF16 is missing";
}

}  // namespace
}  // namespace trainyard::engine
