#include "trainer/backend/cpu/bf16_rows_product.h"

#include <algorithm>

#include "trainer/backend/cpu/bf16_tiling.h"

namespace trainyard::engine {
namespace {

constexpr int64_t kMostPanelGroups = 8;  // packed and multiplied at a time
constexpr int64_t kMostPart = 1024;      // of a part: its left side stays in the second cache

// One part of the sum, [begin, end) of k.
struct SumPart {
  int64_t begin, end;
  int64_t k() const { return end - begin; }
};

Bf16Tiling RowsTiling(int64_t rows, int64_t k) { return {rows, (k + 1) / 2}; }

// Wide panels make long runs of what is read and written, many panels work for many threads.
int64_t PanelGroups(int64_t columns) { return std::clamp<int64_t>(GroupsFor(columns) / 8, 2, kMostPanelGroups); }

// Elements of one group of a right side: whole steps.
int64_t GroupElements(int64_t k) { return RowsTiling(1, k).steps * kMostTilePairs * kGroupPair; }

// Elements of a row of the left side.
int64_t RowElements(int64_t k) { return LeftRow(RowsTiling(1, k).run_elements()); }

// Parts as even as they go. A part is no shorter than another by more than one.
int64_t PartCount(int64_t k) { return std::max<int64_t>(1, (k + kMostPart - 1) / kMostPart); }

// The left side's rows [begin, end), zeros behind k.
void PackLeftPart(const RowsProduct& product, const SumPart& part, int64_t begin, int64_t end, uint16_t* left, const Bf16Kernels& kernels) {
  const int64_t row = RowElements(part.k());
  for (int64_t r = begin; r < end; ++r) std::fill_n(left + r * row + part.k(), row - part.k(), uint16_t{0});
  if (product.a_rounded != nullptr) {
    for (int64_t r = begin; r < end; ++r) std::copy_n(product.a_rounded + r * product.a_row + part.begin, part.k(), left + r * row);
    return;
  }
  Bf16PackArgs pack;
  pack.k = static_cast<int>(part.k());
  pack.width = static_cast<int>(end - begin);
  pack.from = product.a + begin * product.a_row + part.begin * product.a_k;
  pack.to = left + begin * row;
  pack.to_row = row;
  const bool in_rows = product.a_k == 1;
  pack.from_row = in_rows ? product.a_row : product.a_k;
  (in_rows ? kernels.pack_left_rows : kernels.pack_left_columns)(pack);
}

// The right side's groups [begin, end), zeros behind k. `sums` are of the first group; may be null.
void PackRightPart(const RowsProduct& product, const SumPart& part, int64_t begin, int64_t end, uint16_t* right, float* sums,
                   const Bf16Kernels& kernels) {
  const int64_t column = begin * kLanes;
  const auto columns = static_cast<int>(std::min(end * kLanes, product.columns) - column);
  Bf16PackArgs pack;
  pack.k = static_cast<int>(part.k());
  pack.from_row = product.b_row;
  pack.to_group = GroupElements(part.k());
  const int64_t filled = (part.k() + 1) / 2 * kGroupPair;
  for (int64_t group = 0; group < end - begin; ++group) {
    std::fill_n(right + group * pack.to_group + filled, pack.to_group - filled, uint16_t{0});
  }
  if (!product.b_transposed) {
    pack.sum_weights = product.b_sum_weights == nullptr ? nullptr : product.b_sum_weights + part.begin;
    pack.width = columns;
    pack.to = right;
    pack.sums = sums;
    const int64_t place = part.begin * product.b_row + column;
    if (product.b_rounded != nullptr) {
      pack.from_rounded = product.b_rounded + place;
      kernels.pack_right_rounded(pack);
    } else {
      pack.from = product.b + place;
      kernels.pack_right(pack);
    }
    return;
  }
  for (int c = 0; c < columns; c += kLanes) {
    pack.from = product.b + (column + c) * product.b_row + part.begin;
    pack.width = std::min(kLanes, columns - c);
    pack.to = right + c / kLanes * pack.to_group;
    kernels.pack_right_rows(pack);
  }
}

// Of the groups [begin, end) of columns, into c with rows of c_row floats.
Bf16ProductArgs MakePartProduct(const RowsProduct& product, const Bf16Tiling& tiling, const SumPart& part, int64_t begin, int64_t end,
                                const uint16_t* left, const uint16_t* right, float* c, int64_t c_row) {
  Bf16ProductArgs args;
  tiling.ApplyTo(args);
  args.rows = static_cast<int>(product.rows);
  args.groups = static_cast<int>(end - begin);
  args.last_lanes = end * kLanes > product.columns ? LastLanes(product.columns) : kLanes;
  args.a = left;
  args.a_row = RowElements(part.k());
  args.b = right;
  args.b_group = GroupElements(part.k());
  args.c = c;
  args.c_row = c_row;
  args.c_group = args.start_group = kLanes;
  if (product.accumulate || part.begin > 0) {
    args.start = args.c;
    args.start_row = args.c_row;
  } else if (product.bias != nullptr) {
    args.start = product.bias + begin * kLanes;  // the same for all rows
  }
  return args;
}

// Rows of the left side up to a whole block can be read.
int64_t LeftFloats(int64_t rows, int64_t k) { return FloatsOf(RowsTiling(rows, k).padded_rows() * RowElements(k)); }

int64_t LongestPart(int64_t k) { return (k + PartCount(k) - 1) / PartCount(k); }

int64_t PanelFloats(int64_t k) { return kMostPanelGroups * (FloatsOf(GroupElements(LongestPart(k))) + kLanes); }

}  // namespace

size_t Bf16RowsProductScratchFloats(const RowsProduct& product, int threads) {
  return static_cast<size_t>(LeftFloats(product.rows, LongestPart(product.k)) + threads * PanelFloats(product.k));
}

void RunBf16RowsProduct(const RowsProduct& product, float* scratch, CpuDevice& device) {
  const int64_t groups = GroupsFor(product.columns);
  const int64_t panel_groups = PanelGroups(product.columns);
  const int64_t panels = (groups + panel_groups - 1) / panel_groups;
  const int64_t parts = PartCount(product.k);
  auto* const left = reinterpret_cast<uint16_t*>(scratch);
  float* const panels_scratch = scratch + LeftFloats(product.rows, LongestPart(product.k));
  for (int64_t p = 0; p < parts; ++p) {
    const SumPart part = {product.k * p / parts, product.k * (p + 1) / parts};
    const Bf16Tiling tiling = RowsTiling(product.rows, part.k());
    device.pool.Run(product.rows, [&](int64_t begin, int64_t end, int) { PackLeftPart(product, part, begin, end, left, *device.bf16); });
    device.pool.Run(panels, [&](int64_t begin, int64_t end, int thread) {
      const Bf16Section section(device, tiling);
      float* const sums = panels_scratch + thread * PanelFloats(product.k);
      auto* const right = reinterpret_cast<uint16_t*>(sums + kMostPanelGroups * kLanes);
      for (int64_t panel = begin; panel < end; ++panel) {
        const int64_t first = panel * panel_groups;
        const int64_t last = std::min(groups, first + panel_groups);
        const int64_t columns = std::min(product.columns, last * kLanes) - first * kLanes;
        float* const b_sums = product.b_sums == nullptr ? nullptr : product.b_sums + first * kLanes;
        std::fill_n(sums, kMostPanelGroups * kLanes, 0.0f);
        if (b_sums != nullptr && p > 0) std::copy_n(b_sums, columns, sums);
        PackRightPart(product, part, first, last, right, b_sums == nullptr ? nullptr : sums, *device.bf16);
        if (b_sums != nullptr) std::copy_n(sums, columns, b_sums);
        section.Run(MakePartProduct(product, tiling, part, first, last, left, right, product.c + first * kLanes, product.c_row));
      }
    });
  }
}

// The sum is not divided into parts here: its left side is packed once, for all panels.
int64_t Bf16ProductPanels(int64_t columns) {
  const int64_t panel_groups = PanelGroups(columns);
  return (GroupsFor(columns) + panel_groups - 1) / panel_groups;
}

int64_t Bf16ProductPanelEnd(int64_t panel, int64_t columns) { return std::min(columns, (panel + 1) * PanelGroups(columns) * kLanes); }

namespace {

// Of a thread: a packed panel of b and a panel of c.
int64_t RightFloats(int64_t k) { return kMostPanelGroups * FloatsOf(GroupElements(k)); }
int64_t OwnFloats(const RowsProduct& product) { return RightFloats(product.k) + product.rows * kMostPanelGroups * kLanes; }

}  // namespace

size_t Bf16PanelsProductScratchFloats(const RowsProduct& product, int threads) {
  return static_cast<size_t>(LeftFloats(product.rows, product.k) + threads * OwnFloats(product));
}

void RunBf16PanelsProduct(const RowsProduct& product, float* scratch, CpuDevice& device,
                          absl::FunctionRef<void(const ProductPanel&)> done) {
  const int64_t groups = GroupsFor(product.columns);
  const int64_t panel_groups = PanelGroups(product.columns);
  const SumPart part = {0, product.k};
  const Bf16Tiling tiling = RowsTiling(product.rows, product.k);
  auto* const left = reinterpret_cast<uint16_t*>(scratch);
  float* const own = scratch + LeftFloats(product.rows, product.k);
  device.pool.Run(product.rows, [&](int64_t begin, int64_t end, int) { PackLeftPart(product, part, begin, end, left, *device.bf16); });
  device.pool.Run(Bf16ProductPanels(product.columns), [&](int64_t begin, int64_t end, int thread) {
    const Bf16Section section(device, tiling);
    float* const packed = own + thread * OwnFloats(product);
    auto* const right = reinterpret_cast<uint16_t*>(packed);
    float* const c = packed + RightFloats(product.k);
    for (int64_t panel = begin; panel < end; ++panel) {
      const int64_t first = panel * panel_groups;
      const int64_t last = std::min(groups, first + panel_groups);
      const int64_t column = first * kLanes;
      PackRightPart(product, part, first, last, right, nullptr, *device.bf16);
      const int64_t c_row = panel_groups * kLanes;
      section.Run(MakePartProduct(product, tiling, part, first, last, left, right, c, c_row));
      done({panel, column, std::min(product.columns, last * kLanes) - column, c, c_row});
    }
  });
}

size_t Bf16PackedFloats(int64_t k, int64_t columns) { return static_cast<size_t>(GroupsFor(columns) * FloatsOf(GroupElements(k))); }

void PackBf16RightSide(const RowsProduct& product, float* packed, CpuDevice& device) {
  device.pool.Run(GroupsFor(product.columns), [&](int64_t begin, int64_t end, int) {
    auto* const right = reinterpret_cast<uint16_t*>(packed) + begin * GroupElements(product.k);
    PackRightPart(product, {0, product.k}, begin, end, right, nullptr, *device.bf16);
  });
}

size_t Bf16PackedProductScratchFloats(int64_t rows, int64_t k) { return static_cast<size_t>(LeftFloats(rows, k)); }

namespace {

// A product with a packed right side, in two steps: the left side's rows, then groups of columns.
class Bf16PackedProduct {
 public:
  Bf16PackedProduct(const RowsProduct& product, const float* packed, float* scratch, CpuDevice& device)
      : product_(product),
        tiling_(RowsTiling(product.rows, product.k)),
        right_(reinterpret_cast<const uint16_t*>(packed)),
        left_(reinterpret_cast<uint16_t*>(scratch)),
        device_(device) {}

  void PackLeft(int64_t begin, int64_t end) const { PackLeftPart(product_, part_, begin, end, left_, *device_.bf16); }
  void Multiply(int64_t begin, int64_t end) const {
    const uint16_t* const right = right_ + begin * GroupElements(product_.k);
    Bf16Section(device_, tiling_)
        .Run(MakePartProduct(product_, tiling_, part_, begin, end, left_, right, product_.c + begin * kLanes, product_.c_row));
  }

 private:
  const RowsProduct& product_;
  const Bf16Tiling tiling_;
  const SumPart part_ = {0, product_.k};
  const uint16_t* const right_;
  uint16_t* const left_;
  CpuDevice& device_;
};

}  // namespace

void RunBf16PackedProduct(const RowsProduct& product, const float* packed, float* scratch, CpuDevice& device) {
  const Bf16PackedProduct packed_product(product, packed, scratch, device);
  device.pool.Run(product.rows, [&](int64_t begin, int64_t end, int) { packed_product.PackLeft(begin, end); });
  device.pool.Run(GroupsFor(product.columns), [&](int64_t begin, int64_t end, int) { packed_product.Multiply(begin, end); });
}

void RunBf16PackedProductAlone(const RowsProduct& product, const float* packed, float* scratch, CpuDevice& device) {
  const Bf16PackedProduct packed_product(product, packed, scratch, device);
  packed_product.PackLeft(0, product.rows);
  packed_product.Multiply(0, GroupsFor(product.columns));
}

}  // namespace trainyard::engine
