// The logits of a dense layer and their cross-entropy, panel by panel: a panel of logits of all
// rows stays in the second cache. In memory are, written once, terms: e^logit, less its row's sum
// at the label. They are f32, or bf16 where products round them to that. Their factor, 1 / (sum *
// labels), is known at a row's end. What reads the terms multiplies by it on its smaller side, so
// no pass over them is needed.
#include "trainer/ops/dense_cross_entropy.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "trainer/backend/cpu/device.h"
#include "trainer/backend/cpu/layout.h"
#include "trainer/backend/cpu/make_kernel.h"
#include "trainer/backend/cpu/rows_product.h"

namespace trainyard::engine {
namespace {

using Outputs = DenseCrossEntropyOutputs;

constexpr int64_t kMostRows = 1024;  // whose panel stays in the second cache
constexpr int64_t kRowsAgain = 16;   // that are computed again at a time

// Rows [begin, begin + count) of all.
struct RowBlock {
  int64_t begin, count;
};

struct CrossEntropyShape {
  int64_t rows, k, classes;

  explicit CrossEntropyShape(const NodeView& node)
      : rows(node.in(0).shape.elements() / node.in(0).shape[-1]), k(node.in(1).shape[0]), classes(node.in(1).shape[1]) {}

  int64_t block_rows() const {
    const int64_t blocks = (rows + kMostRows - 1) / kMostRows;
    return PaddedFloats((rows + blocks - 1) / blocks);
  }
  RowsProduct Logits(int64_t of_rows) const {
    RowsProduct product;
    product.rows = of_rows;
    product.k = product.a_row = k;
    product.columns = product.b_row = product.c_row = classes;
    return product;
  }
};

class CrossEntropyKernel final : public Kernel {
 public:
  CrossEntropyKernel(CpuDevice& device, const NodeView& node, bool bias)
      : device_(device),
        shape_(node),
        bias_(bias),
        narrow_(node.out(Outputs::kTerms).narrow),
        term_bytes_(ElementBytes(node.out(Outputs::kTerms))),
        panels_(ProductPanels(shape_.classes, device)) {
    for (int64_t panel = 0; panel < panels_; ++panel) ends_.push_back(ProductPanelEnd(panel, shape_.classes, device));
    const int64_t block = shape_.block_rows();
    size_t bytes = 0;
    const auto take = [&](int64_t elements, size_t size) {
      return std::exchange(bytes, Aligned(bytes + static_cast<size_t>(elements) * size));
    };
    losses_ = take(shape_.rows, sizeof(double));
    correct_ = take(shape_.rows, sizeof(uint8_t));
    beyond_ = take(block, sizeof(uint8_t));
    leads_ = take(block, sizeof(uint8_t));
    wanted_ = take(block, sizeof(float));
    sums_ = take(panels_ * block, sizeof(float));
    highest_ = take(panels_ * block, sizeof(float));
    product_ = bytes;
    const size_t of_panels = PanelsProductScratchFloats(shape_.Logits(block), device);
    const size_t of_again = RowsProductScratchFloats(shape_.Logits(kRowsAgain), device) + static_cast<size_t>(AgainFloats());
    scratch_bytes_ = bytes + std::max(of_panels, of_again) * sizeof(float);
  }

  size_t scratch_bytes() const override { return scratch_bytes_; }

  void Run(const KernelContext& context) override {
    auto* const losses = At<double>(context, losses_);
    for (int64_t begin = 0; begin < shape_.rows; begin += shape_.block_rows()) {
      const RowBlock block{begin, std::min(shape_.block_rows(), shape_.rows - begin)};
      RunPanels(context, block);
      EndRows(context, block);
      RunAgain(context, block);
    }
    const auto rows = static_cast<double>(shape_.rows);
    *context.output<float>(Outputs::kLoss) = static_cast<float>(std::accumulate(losses, losses + shape_.rows, 0.0) / rows);
    if (context.outputs[Outputs::kCorrect] == nullptr) return;
    const auto* const correct = At<uint8_t>(context, correct_);
    *context.output<float>(Outputs::kCorrect) = static_cast<float>(std::accumulate(correct, correct + shape_.rows, int64_t{0}));
  }

 private:
  template <typename T>
  static T* At(const KernelContext& context, size_t bytes) {
    return reinterpret_cast<T*>(static_cast<std::byte*>(context.scratch) + bytes);
  }
  const int32_t* Labels(const KernelContext& context) const { return context.input<int32_t>(bias_ ? 3 : 2); }
  // The terms of `row`; null where nothing reads them.
  std::byte* Terms(const KernelContext& context, int64_t row) const {
    auto* const terms = context.output<std::byte>(Outputs::kTerms);
    return terms == nullptr ? nullptr : terms + row * shape_.classes * term_bytes_;
  }
  float* Factors(const KernelContext& context, int64_t row) const {
    float* const factors = context.output<float>(Outputs::kFactors);
    return factors == nullptr ? nullptr : factors + row;
  }
  RowsProduct Logits(const KernelContext& context, int64_t rows, const float* x) const {
    RowsProduct product = shape_.Logits(rows);
    product.a = x;
    product.b = context.input<float>(1);
    product.bias = bias_ ? context.input<float>(2) : nullptr;
    return product;
  }
  int64_t AgainFloats() const { return kRowsAgain * (PaddedFloats(shape_.k) + PaddedFloats(shape_.classes)); }

  void RunPanels(const KernelContext& context, const RowBlock& block) const {
    ExpRowsArgs args;
    args.rows = static_cast<int>(block.count);
    args.labels = Labels(context) + block.begin;
    args.wanted = At<float>(context, wanted_);
    args.leads = At<uint8_t>(context, leads_);
    args.y_row = shape_.classes;
    std::byte* const terms = Terms(context, block.begin);
    const bool counts = context.outputs[Outputs::kCorrect] != nullptr;
    const RowsProduct product = Logits(context, block.count, context.input<float>(0) + block.begin * shape_.k);
    const float* const next = narrow_ ? nullptr : reinterpret_cast<const float*>(terms);
    RunPanelsProduct(product, next, shape_.classes, At<float>(context, product_), device_, [&](const ProductPanel& panel) {
      ExpRowsArgs mine = args;
      mine.x = panel.c;
      mine.x_row = panel.c_row;
      mine.columns = static_cast<int>(panel.columns);
      mine.first = static_cast<int32_t>(panel.column);
      mine.y = terms == nullptr ? nullptr : terms + panel.column * term_bytes_;
      mine.sums = At<float>(context, sums_) + panel.number * shape_.block_rows();
      mine.highest = counts ? At<float>(context, highest_) + panel.number * shape_.block_rows() : nullptr;
      (narrow_ ? device_.bf16->exp_rows : device_.kernels.exp_rows)(mine);
    });
  }

  void EndRows(const KernelContext& context, const RowBlock& block) const {
    ExpRowsEndArgs args;
    args.sums = At<float>(context, sums_);
    args.sums_row = shape_.block_rows();
    args.panels = static_cast<int>(panels_);
    args.wanted = At<float>(context, wanted_);
    args.labels = Labels(context) + block.begin;
    args.count = static_cast<double>(shape_.rows);
    args.losses = At<double>(context, losses_) + block.begin;
    args.y = Terms(context, block.begin);
    args.y_row = shape_.classes;
    args.factors = Factors(context, block.begin);
    args.beyond = At<uint8_t>(context, beyond_);
    device_.pool.Run(VectorsFor(block.count), [&](int64_t begin, int64_t end, int) {
      ExpRowsEndArgs mine = args;
      mine.begin = begin * kLanes;
      mine.end = std::min(block.count, end * kLanes);
      (narrow_ ? device_.bf16->exp_rows_end : device_.kernels.exp_rows_end)(mine);
      if (context.outputs[Outputs::kCorrect] != nullptr) FindCorrect(context, block, mine.begin, mine.end);
    });
  }

  // The label is the first of the highest where it is so in its own panel, no panel before has a
  // logit as high, and no panel behind a higher one.
  void FindCorrect(const KernelContext& context, const RowBlock& block, int64_t begin, int64_t end) const {
    const int32_t* const labels = Labels(context) + block.begin;
    for (int64_t row = begin; row < end; ++row) {
      const float wanted = At<float>(context, wanted_)[row];
      bool leads = At<uint8_t>(context, leads_)[row] != 0;
      const float* highest = At<float>(context, highest_) + row;
      for (int64_t panel = 0; leads && panel < panels_; ++panel, highest += shape_.block_rows()) {
        leads = ends_[panel] <= labels[row] ? *highest < wanted : *highest <= wanted;
      }
      At<uint8_t>(context, correct_)[block.begin + row] = leads ? 1 : 0;
    }
  }

  // Rows whose exponentials are beyond the range: with all of their logits at hand.
  void RunAgain(const KernelContext& context, const RowBlock& block) const {
    const auto* const beyond = At<uint8_t>(context, beyond_);
    std::array<int64_t, kRowsAgain> rows;
    int64_t count = 0;
    for (int64_t row = 0; row < block.count; ++row) {
      if (beyond[row] != 0) rows[count++] = block.begin + row;
      if (count == kRowsAgain || (count > 0 && row + 1 == block.count)) RunAgain(context, std::span(rows).first(std::exchange(count, 0)));
    }
  }

  void RunAgain(const KernelContext& context, std::span<const int64_t> rows) const {
    float* const x = At<float>(context, product_);
    float* const logits = x + kRowsAgain * PaddedFloats(shape_.k);
    for (size_t i = 0; i < rows.size(); ++i) std::copy_n(context.input<float>(0) + rows[i] * shape_.k, shape_.k, x + i * shape_.k);
    RowsProduct product = Logits(context, static_cast<int64_t>(rows.size()), x);
    product.c = logits;
    RunRowsProduct(product, x + AgainFloats(), device_);
    for (size_t i = 0; i < rows.size(); ++i) {
      float* const scores = logits + i * shape_.classes;
      std::byte* const terms = Terms(context, rows[i]);
      RowLossArgs args;
      args.classes = static_cast<int>(shape_.classes);
      args.end = 1;
      args.x = scores;
      args.labels = Labels(context) + rows[i];
      args.losses = At<double>(context, losses_) + rows[i];
      args.correct = At<uint8_t>(context, correct_) + rows[i];
      device_.kernels.correct_rows(args);
      args.y = terms == nullptr ? nullptr : scores;
      device_.kernels.cross_entropy_rows(args);
      if (float* const factor = Factors(context, rows[i]); factor != nullptr) *factor = 1.0f / static_cast<float>(shape_.rows);
      if (terms == nullptr) continue;
      scores[*args.labels] -= 1.0f;
      StoreTerms(scores, terms);
    }
  }

  void StoreTerms(const float* row, std::byte* terms) const {
    if (!narrow_) {
      std::copy_n(row, shape_.classes, reinterpret_cast<float*>(terms));
      return;
    }
    Bf16PackArgs pack;
    pack.from = row;
    pack.k = static_cast<int>(shape_.classes);
    pack.width = 1;
    pack.to = reinterpret_cast<uint16_t*>(terms);
    device_.bf16->pack_left_rows(pack);
  }

  CpuDevice& device_;
  const CrossEntropyShape shape_;
  const bool bias_;
  const bool narrow_;  // the terms are bfloat16
  const int64_t term_bytes_;
  const int64_t panels_;
  std::vector<int64_t> ends_;  // of the panels, in classes
  // Where each lies in the scratch, in bytes.
  size_t losses_, correct_, beyond_, leads_, wanted_, sums_, highest_, product_, scratch_bytes_;
};

}  // namespace

CompiledKernel Compile(CpuDevice& device, const NodeView& node, const DenseCrossEntropyOp& op) {
  return std::make_unique<CrossEntropyKernel>(device, node, op.bias);
}

CompiledKernel Compile(CpuDevice& device, const NodeView& node, const DenseCrossEntropyInputGradientOp&) {
  RowsProduct product;
  product.columns = product.c_row = node.in(2).shape[0];
  product.k = product.a_row = product.b_row = node.in(2).shape[1];
  product.rows = node.in(0).shape.elements() / product.k;
  product.b_transposed = true;
  return MakeKernel(
      [&device, product, narrow = node.in(0).narrow](const KernelContext& context) mutable {
        product.a = narrow ? nullptr : context.input<float>(0);
        product.a_rounded = narrow ? context.input<uint16_t>(0) : nullptr;
        product.b = context.input<float>(2);
        product.c = context.output<float>(0);
        RunRowsProduct(product, static_cast<float*>(context.scratch), device);
        device.pool.Run(product.rows, [&](int64_t begin, int64_t end, int) {
          for (int64_t row = begin; row < end; ++row) {
            const float factor = context.input<float>(1)[row] * *context.input<float>(3);
            float* const dx = product.c + row * product.columns;
            for (int64_t i = 0; i < product.columns; ++i) dx[i] *= factor;
          }
        });
      },
      RowsProductScratchFloats(product, device) * sizeof(float));
}

CompiledKernel Compile(CpuDevice& device, const NodeView& node, const DenseCrossEntropyWeightGradientOp& op) {
  RowsProduct product;
  product.rows = product.a_k = node.out().shape[0];
  product.a_row = 1;
  product.columns = product.b_row = product.c_row = node.out().shape[1];
  product.k = node.in(0).shape.elements() / product.rows;
  const int64_t x_floats = PaddedFloats(product.k * product.rows);
  const int64_t factor_floats = PaddedFloats(product.k);
  return MakeKernel(
      [&device, product, bias = op.bias, narrow = node.in(1).narrow, x_floats, factor_floats](const KernelContext& context) mutable {
        auto* const x = static_cast<float*>(context.scratch);
        float* const factors = x + x_floats;
        device.pool.Run(product.k, [&](int64_t begin, int64_t end, int) {
          for (int64_t row = begin; row < end; ++row) {
            factors[row] = context.input<float>(2)[row] * *context.input<float>(3);
            const float* const from = context.input<float>(0) + row * product.rows;
            for (int64_t i = 0; i < product.rows; ++i) x[row * product.rows + i] = from[i] * factors[row];
          }
        });
        product.a = x;
        product.b = narrow ? nullptr : context.input<float>(1);
        product.b_rounded = narrow ? context.input<uint16_t>(1) : nullptr;
        product.c = context.output<float>(0);
        product.b_sums = bias ? context.output<float>(1) : nullptr;
        product.b_sum_weights = factors;
        RunRowsProduct(product, factors + factor_floats, device);
      },
      (static_cast<size_t>(x_floats + factor_floats) + RowsProductScratchFloats(product, device)) * sizeof(float));
}

}  // namespace trainyard::engine
