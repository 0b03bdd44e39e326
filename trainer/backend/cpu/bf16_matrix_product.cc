#include "trainer/backend/cpu/bf16_matrix_product.h"

#include <algorithm>

namespace trainyard::engine {
namespace {

// The geometry of a matrix product: threads divide blocks of outputs, two at a time, so that each
// part has whole pairs of them.
struct MatrixPlan {
  static constexpr int kPartBlocks = 2;
  static constexpr int kPartPixels = 16;  // whose sums wait for their rounding, where y is pairs

  bool in_place;  // x is the operand
  int parts, part_rows;
  int64_t image_floats, sum_floats;  // of all threads; of each

  MatrixPlan(const ConvForwardArgs& args, const Bf16ConvPlan& plan)
      : in_place(args.x_in_pairs && plan.tiling.run_elements() == args.shape.channels),
        parts((plan.tiling.blocks + kPartBlocks - 1) / kPartBlocks),
        part_rows(kPartBlocks * plan.tiling.block),
        image_floats(in_place ? 0 : FloatsOf(args.shape.in_w * plan.pixel + kRightSlack)),
        sum_floats(args.y_in_pairs ? int64_t{kPartPixels} * part_rows * kLanes : 0) {}
};

class MatrixProduct {
 public:
  MatrixProduct(const ConvForwardArgs& args, const Bf16ConvPlan& plan, const float* bias, float* scratch, CpuDevice& device)
      : args_(args), shape_(args.shape), plan_(plan), matrix_(args, plan), bias_(bias), scratch_(scratch), device_(device) {
    plan.tiling.ApplyTo(product_);
    product_.a_row = WeightsRow(plan.tiling, 1);
    product_.b = reinterpret_cast<const uint16_t*>(matrix_.in_place ? args.x : scratch);
    product_.b_group = plan.pixel;
    product_.c_row = product_.start_row = kLanes;
  }

  void Run() {
    if (!matrix_.in_place) PackImage();
    device_.pool.Run(matrix_.parts, [&](int64_t begin, int64_t end, int thread) {
      const Bf16Section section(device_, plan_.tiling);
      const auto first = static_cast<int>(begin) * matrix_.part_rows;
      const int last = std::min(shape_.outputs, static_cast<int>(end) * matrix_.part_rows);
      if (!args_.y_in_pairs) return RunRows(section, first, last);
      float* const sums = scratch_ + matrix_.image_floats + thread * matrix_.sum_floats;
      for (int row = first; row < last; row += matrix_.part_rows) {
        RunRoundedRows(section, row, std::min(matrix_.part_rows, last - row), sums);
      }
    });
  }

 private:
  void PackImage() const {
    auto* const image = reinterpret_cast<uint16_t*>(scratch_);
    device_.pool.Run(shape_.in_w, [&](int64_t begin, int64_t end, int) {
      const int64_t from = begin * shape_.channels * kLanes;
      if (args_.x_in_pairs) {
        std::copy_n(reinterpret_cast<const uint16_t*>(args_.x) + from, (end - begin) * plan_.pixel, image + begin * plan_.pixel);
      } else {
        PackPixels(*device_.bf16, args_.x + from, end - begin, shape_.channels, image + begin * plan_.pixel);
      }
    });
    std::fill_n(image + shape_.in_w * plan_.pixel, kRightSlack, uint16_t{0});
  }

  // Of the outputs [row, row + rows).
  Bf16ProductArgs ProductOf(int row, int rows) const {
    Bf16ProductArgs product = product_;
    product.rows = rows;
    product.a = reinterpret_cast<const uint16_t*>(args_.weights) + row * product.a_row;
    product.start = bias_ == nullptr ? nullptr : bias_ + int64_t{row} * kLanes;
    return product;
  }

  void RunRows(const Bf16Section& section, int begin, int end) const {
    Bf16ProductArgs product = ProductOf(begin, end - begin);
    product.groups = shape_.out_w;
    product.c = args_.y + int64_t{begin} * kLanes;
    product.c_group = args_.y_column;
    section.Run(product);
    for (int column = 0; column < shape_.out_w; ++column) {
      float* const y = product.c + column * args_.y_column;
      if (args_.add != nullptr) {
        const float* const terms[] = {y, args_.add + (y - args_.y)};
        device_.kernels.add(terms, 2, y, 0, product.rows);
      }
      if (args_.activation != Activation::kIdentity) device_.kernels.activate(y, y, product.rows, args_.activation);
    }
  }

  void RunRoundedRows(const Bf16Section& section, int row, int rows, float* sums) const {
    Bf16ProductArgs product = ProductOf(row, rows);
    product.c = sums;
    product.c_group = int64_t{rows} * kLanes;
    for (int column = 0; column < shape_.out_w; column += MatrixPlan::kPartPixels) {
      product.groups = std::min(MatrixPlan::kPartPixels, shape_.out_w - column);
      product.b = product_.b + column * product.b_group;
      section.Run(product);
      for (int i = 0; i < product.groups; ++i) {
        const int64_t place = (column + i) * args_.y_column + int64_t{row} * kLanes;
        StoreRounded(args_, sums + i * product.c_group, place, rows, device_);
      }
    }
  }

  const ConvForwardArgs& args_;
  const ConvShape& shape_;
  const Bf16ConvPlan& plan_;
  const MatrixPlan matrix_;
  const float* const bias_;
  float* const scratch_;
  CpuDevice& device_;
  Bf16ProductArgs product_;
};

}  // namespace

bool IsMatrixProduct(const ConvForwardArgs& args) {
  const ConvShape& shape = args.shape;
  return shape.panels == 1 && shape.in_h == 1 && shape.out_h == 1 && shape.in_w == shape.out_w && shape.kernel_h == 1 &&
         shape.kernel_w == 1 && shape.stride_w == 1 && shape.pad_top == 0 && shape.pad_left == 0 && !args.max_pool;
}

int64_t MatrixProductScratchFloats(const ConvForwardArgs& args, const Bf16ConvPlan& plan, int threads) {
  const MatrixPlan matrix(args, plan);
  return matrix.image_floats + threads * matrix.sum_floats;
}

void RunMatrixProduct(const ConvForwardArgs& args, const Bf16ConvPlan& plan, const float* bias, float* scratch, CpuDevice& device) {
  MatrixProduct(args, plan, bias, scratch, device).Run();
}

}  // namespace trainyard::engine
