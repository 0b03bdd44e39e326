// Kernels that keep values in rows as bfloat16 do what those of float32 do, and round it to the
// nearest; and what reads such values reads them as float32.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "trainer/backend/cpu/layout.h"
#include "trainer/backend/cpu/select_bf16.h"
#include "trainer/tensor/bfloat16.h"
#include "trainer/tensor/buffer.h"

namespace trainyard::engine {
namespace {

constexpr uint16_t kNotWritten = 0x7fab;

// Values of a normal distribution, at an address of a vector.
class RandomFloats {
 public:
  RandomFloats(int64_t count, uint32_t seed, float scale = 1.0f) : count_(static_cast<size_t>(count)), buffer_(count_ * sizeof(float)) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal(0.0f, scale);
    std::ranges::generate(values(), [&] { return normal(random); });
  }
  float* data() { return buffer_.as<float>(); }
  std::span<float> values() { return {data(), count_}; }
  std::vector<float> copy() { return {values().begin(), values().end()}; }

 private:
  size_t count_;
  Buffer buffer_;
};

uint16_t RoundedBits(float x) { return static_cast<uint16_t>(std::bit_cast<uint32_t>(RoundToBfloat16(x)) >> 16); }

class Bf16RowsKernelsTest : public testing::TestWithParam<Bf16Set> {
 protected:
  const Bf16Kernels& narrow() const { return GetParam().kernels; }
};

TEST_P(Bf16RowsKernelsTest, ARightSideOfBfloat16IsPackedAsOneOfFloat32) {
  for (const int width : {1, 15, 16, 40, 64, 128}) {
    for (const int k : {1, 2, 7, 32}) {
      for (const bool weighted : {false, true}) {
        SCOPED_TRACE(testing::Message() << "width " << width << ", k " << k << (weighted ? ", weighted" : ""));
        const int64_t row = width + 5;
        RandomFloats from(k * row, 3), weights(k, 4);
        std::vector<uint16_t> rounded;
        for (float& value : from.values()) rounded.push_back(RoundedBits(value = RoundToBfloat16(value)));
        rounded.resize(static_cast<size_t>((k - 1) * row + width));  // nothing behind it is read
        const int64_t groups = VectorsFor(width);
        Bf16PackArgs args{.from = from.data(), .from_row = row, .k = k, .width = width, .to_group = (k + 1) / 2 * kGroupPair};
        args.sum_weights = weighted ? weights.data() : nullptr;
        std::vector<uint16_t> expected(static_cast<size_t>(groups * args.to_group), kNotWritten), found = expected;
        RandomFloats expected_sums(groups * kLanes, 6), found_sums(groups * kLanes, 6);
        args.to = expected.data();
        args.sums = expected_sums.data();
        narrow().pack_right(args);
        args.from = nullptr;
        args.from_rounded = rounded.data();
        args.to = found.data();
        args.sums = found_sums.data();
        narrow().pack_right_rounded(args);
        EXPECT_EQ(found, expected);
        EXPECT_EQ(found_sums.copy(), expected_sums.copy());
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(EachInstructionSet, Bf16RowsKernelsTest, testing::ValuesIn(RunnableBf16Sets()),
                         [](const auto& info) { return std::string(info.param.isa); });

}  // namespace
}  // namespace trainyard::engine
