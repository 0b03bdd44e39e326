#include "trainer/backend/cpu/rows_product.h"

#include <algorithm>

#include "trainer/backend/cpu/bf16_rows_product.h"
#include "trainer/backend/cpu/layout.h"

namespace trainyard::engine {
namespace {

constexpr int64_t kMostVectors = 4;  // of a panel
constexpr int64_t kMostK = 128;      // rows of a panel: 128 x 4 vectors are the nearest cache
constexpr int64_t kSumsFloats = kMostVectors * kLanes;
constexpr int64_t kThreadFloats = kMostK * kMostVectors * kLanes + kSumsFloats;

// The columns cut into panels of whole vectors, as even as they go.
struct Panels {
  int64_t columns, vectors, count;

  explicit Panels(int64_t all) : columns(all), vectors(VectorsFor(all)), count((vectors + kMostVectors - 1) / kMostVectors) {}
  int64_t begin(int64_t panel) const { return vectors * panel / count * kLanes; }
  int64_t width(int64_t panel) const { return begin(panel + 1) - begin(panel); }
  int64_t filled(int64_t panel) const { return std::min(columns, begin(panel + 1)) - begin(panel); }
};

PackRowsArgs MakePack(const RowsProduct& product, const Panels& panels, int64_t panel, int64_t k_begin, int64_t k_end, float* to) {
  PackRowsArgs pack;
  const int64_t column = panels.begin(panel);
  pack.from = product.b + (product.b_transposed ? column * product.b_row + k_begin : k_begin * product.b_row + column);
  pack.from_row = product.b_row;
  pack.to = to;
  pack.rows = static_cast<int>(k_end - k_begin);
  pack.columns = static_cast<int>(panels.filled(panel));
  pack.width = static_cast<int>(panels.width(panel));
  pack.transposed = product.b_transposed;
  return pack;
}

ProductArgs MakeProduct(const RowsProduct& product, const Panels& panels, int64_t panel, int64_t k_begin, int64_t k_end,
                        const float* packed) {
  ProductArgs args;
  const int64_t column = panels.begin(panel);
  args.rows = static_cast<int>(product.rows);
  args.columns = static_cast<int>(panels.filled(panel));
  args.k = args.chunk = static_cast<int>(k_end - k_begin);
  args.a = product.a + k_begin * product.a_k;
  args.a_row = product.a_row;
  args.a_k = product.a_k;
  args.b = packed;
  args.b_k = panels.width(panel);
  args.bias = product.bias == nullptr || k_begin > 0 ? nullptr : product.bias + column;
  args.accumulate = product.accumulate || k_begin > 0;
  args.c = product.c + column;
  args.c_row = product.c_row;
  return args;
}

}  // namespace

size_t RowsProductScratchFloats(const RowsProduct& product, const CpuDevice& device) {
  if (device.bf16 != nullptr) return Bf16RowsProductScratchFloats(product, device.pool.threads());
  return static_cast<size_t>(device.pool.threads()) * kThreadFloats;
}

void RunRowsProduct(const RowsProduct& product, float* scratch, CpuDevice& device) {
  if (device.bf16 != nullptr) return RunBf16RowsProduct(product, scratch, device);
  const Panels panels(product.columns);
  const int64_t parts = (product.k + kMostK - 1) / kMostK;
  device.pool.Run(panels.count, [&](int64_t begin, int64_t end, int thread) {
    float* const sums = scratch + thread * kThreadFloats;
    float* const packed = sums + kSumsFloats;
    const auto add = [&](int64_t panel, int64_t part) {
      const int64_t k_begin = product.k * part / parts;
      const int64_t k_end = product.k * (part + 1) / parts;
      PackRowsArgs pack = MakePack(product, panels, panel, k_begin, k_end, packed);
      pack.sums = product.b_sums == nullptr ? nullptr : sums;
      device.kernels.pack_rows(pack);
      device.kernels.product(MakeProduct(product, panels, panel, k_begin, k_end, packed));
    };
    // The side that is read most often stays in the second cache: a part of a when k is long,
    // otherwise a panel of c.
    if (product.k > product.columns && product.b_sums == nullptr) {
      for (int64_t part = 0; part < parts; ++part) {
        for (int64_t panel = begin; panel < end; ++panel) add(panel, part);
      }
      return;
    }
    for (int64_t panel = begin; panel < end; ++panel) {
      std::fill_n(sums, kSumsFloats, 0.0f);
      for (int64_t part = 0; part < parts; ++part) add(panel, part);
      if (product.b_sums != nullptr) std::copy_n(sums, panels.filled(panel), product.b_sums + panels.begin(panel));
    }
  });
}

size_t PackedFloats(int64_t k, int64_t columns, const CpuDevice& device) {
  if (device.bf16 != nullptr) return Bf16PackedFloats(k, columns);
  return static_cast<size_t>(k * Panels(columns).vectors * kLanes);
}

void PackRightSide(const RowsProduct& product, float* packed, CpuDevice& device) {
  if (device.bf16 != nullptr) return PackBf16RightSide(product, packed, device);
  const Panels panels(product.columns);
  device.pool.Run(panels.count, [&](int64_t begin, int64_t end, int) {
    for (int64_t panel = begin; panel < end; ++panel) {
      device.kernels.pack_rows(MakePack(product, panels, panel, 0, product.k, packed + panels.begin(panel) * product.k));
    }
  });
}

size_t PackedProductScratchFloats(int64_t rows, int64_t k, const CpuDevice& device) {
  return device.bf16 == nullptr ? 0 : Bf16PackedProductScratchFloats(rows, k);
}

void RunPackedProduct(const RowsProduct& product, const float* packed, float* scratch, CpuDevice& device) {
  if (device.bf16 != nullptr) return RunBf16PackedProduct(product, packed, scratch, device);
  const Panels panels(product.columns);
  device.pool.Run(panels.count, [&](int64_t begin, int64_t end, int) {
    for (int64_t panel = begin; panel < end; ++panel) {
      device.kernels.product(MakeProduct(product, panels, panel, 0, product.k, packed + panels.begin(panel) * product.k));
    }
  });
}

}  // namespace trainyard::engine
