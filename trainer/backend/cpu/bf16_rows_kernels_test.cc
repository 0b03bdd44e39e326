// Kernels that keep values in rows as bfloat16 do what those of float32 do, and round it to the
// nearest; and what reads such values reads them as float32.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
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

float Widened(uint16_t bits) { return std::bit_cast<float>(uint32_t{bits} << 16); }
int16_t FractionOf(float gate) { return static_cast<int16_t>(std::round(gate * 32767.0f)); }
uint16_t RoundedBits(float x) { return static_cast<uint16_t>(std::bit_cast<uint32_t>(RoundToBfloat16(x)) >> 16); }

class Bf16RowsKernelsTest : public testing::TestWithParam<Bf16Set> {
 protected:
  const KernelTable& wide() const { return *GetParam().table; }
  const Bf16Kernels& narrow() const { return GetParam().kernels; }
};

// Runs exp_rows and exp_rows_end over rows of one panel.
struct Exponentials {
  int rows, columns;
  std::vector<int32_t> labels;
  std::vector<float> sums, wanted, factors;
  std::vector<double> losses;
  std::vector<uint8_t> beyond;

  Exponentials(int rows, int columns) : rows(rows), columns(columns) {
    for (int row = 0; row < rows; ++row) labels.push_back(row * 7 % columns);
  }

  template <typename Kernels>
  void Run(const Kernels& kernels, RandomFloats& logits, void* y, int64_t y_row) {
    const auto padded = static_cast<size_t>(PaddedFloats(rows));
    sums.assign(padded, 0.0f);
    wanted.assign(padded, 0.0f);
    factors.assign(padded, 0.0f);
    losses.assign(padded, 0.0);
    beyond.assign(padded, 0);
    ExpRowsArgs args{.x = logits.data(), .x_row = PaddedFloats(columns), .rows = rows, .columns = columns, .labels = labels.data()};
    args.y = y;
    args.y_row = y_row;
    args.sums = sums.data();
    args.wanted = wanted.data();
    kernels.exp_rows(args);
    ExpRowsEndArgs end{.end = rows, .sums = sums.data(), .sums_row = PaddedFloats(rows), .panels = 1, .wanted = wanted.data()};
    end.labels = labels.data();
    end.losses = losses.data();
    end.y = y;
    end.y_row = y_row;
    end.factors = factors.data();
    end.beyond = beyond.data();
    kernels.exp_rows_end(end);
  }
};

TEST_P(Bf16RowsKernelsTest, TermsAreThoseOfFloat32Rounded) {
  for (const int columns : {1, 7, 16, 17, 31, 32, 48, 63, 128}) {
    for (const int rows : {1, 16, 19}) {
      SCOPED_TRACE(testing::Message() << rows << " rows, " << columns << " columns");
      const int64_t y_row = columns + 3;
      RandomFloats logits(rows * PaddedFloats(columns), 5, 3.0f);
      std::vector<float> wide_terms(static_cast<size_t>(rows * y_row), Widened(kNotWritten));
      std::vector<uint16_t> terms(wide_terms.size(), kNotWritten);
      Exponentials expected(rows, columns), found(rows, columns);
      expected.Run(wide(), logits, wide_terms.data(), y_row);
      found.Run(narrow(), logits, terms.data(), y_row);
      for (size_t i = 0; i < terms.size(); ++i) ASSERT_EQ(terms[i], RoundedBits(wide_terms[i])) << "at " << i;
      EXPECT_EQ(found.sums, expected.sums);
      EXPECT_EQ(found.losses, expected.losses);
      EXPECT_EQ(found.factors, expected.factors);
      found.Run(narrow(), logits, nullptr, y_row);
      EXPECT_EQ(found.sums, expected.sums);
    }
  }
}

// The label's term is e^logit less the sum as those of other columns are e^logit.
TEST_P(Bf16RowsKernelsTest, TheLabelsTermIsMadeOfItsLogit) {
  constexpr int kColumns = 20;
  RandomFloats logits(PaddedFloats(kColumns), 9, 4.0f);
  for (int label = 0; label < kColumns; ++label) {
    Exponentials one(1, kColumns), other(1, kColumns);
    one.labels = {label};
    other.labels = {(label + 1) % kColumns};
    std::vector<float> terms(kColumns), elsewhere(kColumns);
    one.Run(wide(), logits, terms.data(), kColumns);
    other.Run(wide(), logits, elsewhere.data(), kColumns);
    EXPECT_EQ(terms[label], static_cast<float>(static_cast<double>(elsewhere[label]) - static_cast<double>(one.sums[0])));
  }
}

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

TEST_P(Bf16RowsKernelsTest, AnLstmKeepsItsGatesAsFractionsAndItsStateAsItIs) {
  for (const int units : {1, 7, 16, 33, 70}) {
    for (const bool first : {true, false}) {
      SCOPED_TRACE(testing::Message() << units << " units" << (first ? ", the first step" : ""));
      constexpr int kRows = 3;
      const int64_t gates_row = 4 * units + 3;
      RandomFloats z(kRows * 4 * units, 1), q(kRows * 4 * units, 2), h(kRows * units, 3), c(kRows * units, 4);
      RecurrentStepArgs args{.cell = Cell::kLstm, .rows = kRows, .units = units, .z = z.data(), .z_row = 4 * units, .q = q.data()};
      args.h = first ? nullptr : h.data();
      args.c = first ? nullptr : c.data();
      args.h_row = args.c_row = args.y_row = args.cells_row = units;
      args.gates_row = gates_row;
      RandomFloats y(kRows * units, 5), cells(kRows * units, 6), narrow_y(kRows * units, 5), narrow_cells(kRows * units, 6);
      std::vector<float> wide_gates(kRows * gates_row, 0.5f);
      std::vector<int16_t> gates(wide_gates.size(), FractionOf(0.5f));
      args.y = y.data();
      args.cells = cells.data();
      args.gates = wide_gates.data();
      wide().recurrent_step(args);
      args.y = narrow_y.data();
      args.cells = narrow_cells.data();
      args.gates = gates.data();
      narrow().lstm_step(args);
      EXPECT_EQ(narrow_y.copy(), y.copy());
      EXPECT_EQ(narrow_cells.copy(), cells.copy());
      for (size_t i = 0; i < gates.size(); ++i) ASSERT_EQ(gates[i], FractionOf(wide_gates[i])) << "at " << i;
      args.gates = nullptr;
      narrow().lstm_step(args);
      EXPECT_EQ(narrow_y.copy(), y.copy());
    }
  }
}

TEST_P(Bf16RowsKernelsTest, AStepBackOfAnLstmReadsFractionsAsFloat32) {
  for (const int units : {1, 7, 16, 33, 70}) {
    SCOPED_TRACE(testing::Message() << units << " units");
    constexpr int kRows = 3;
    const int64_t width = 4 * units;
    RandomFloats dy(kRows * units, 1), y(kRows * units, 2), cells(kRows * units, 3), h(kRows * units, 4), c(kRows * units, 5);
    RandomFloats wide_gates(kRows * width, 6, 0.3f);
    std::vector<int16_t> gates;
    for (float& gate : wide_gates.values()) {
      gates.push_back(FractionOf(std::clamp(gate, -1.0f, 1.0f)));
      gate = static_cast<float>(gates.back()) * (1.0f / 32767.0f);
    }
    RecurrentStepGradientArgs args{.cell = Cell::kLstm, .rows = kRows, .units = units, .dy = dy.data(), .dy_row = units};
    args.y = y.data();
    args.cells = cells.data();
    args.h = h.data();
    args.c = c.data();
    args.y_row = args.cells_row = args.h_row = args.c_row = units;
    args.gates_row = args.dz_row = width;
    const auto run = [&](auto kernel, const void* from) {
      RandomFloats dh(kRows * units, 7), dc(kRows * units, 8), dz(kRows * width, 9), dq(kRows * width, 10);
      args.gates = from;
      args.dh = dh.data();
      args.dc = dc.data();
      args.dz = dz.data();
      args.dq = dq.data();
      kernel(args);
      std::vector<float> all;
      for (RandomFloats* values : {&dh, &dc, &dz, &dq}) all.insert(all.end(), values->values().begin(), values->values().end());
      return all;
    };
    EXPECT_EQ(run(narrow().lstm_step_gradient, gates.data()), run(wide().recurrent_step_gradient, wide_gates.data()));
  }
}

INSTANTIATE_TEST_SUITE_P(EachInstructionSet, Bf16RowsKernelsTest, testing::ValuesIn(RunnableBf16Sets()),
                         [](const auto& info) { return std::string(info.param.isa); });

}  // namespace
}  // namespace trainyard::engine
