#include "trainer/backend/cpu/rows_product.h"

#include <algorithm>

#include "trainer/backend/cpu/bf16_rows_product.h"
#include "trainer/backend/cpu/layout.h"

namespace trainyard::engine {
namespace {

constexpr int64_t kMostVectors = 4;  // of a panel
constexpr int64_t kSumsFloats = kMostVectors * kLanes;

// What a thread packs, and its sums.
int64_t ThreadFloats(const KernelTable& kernels) { return kernels.max_product_steps * kMostVectors * kLanes + kSumsFloats; }

// Of a panel of c.
int64_t PanelFloats(int64_t rows) { return rows * kMostVectors * kLanes; }

// The columns cut into panels of whole vectors, as even as they go.
struct Panels {
  int64_t columns, vectors, count;

  explicit Panels(int64_t all) : columns(all), vectors(VectorsFor(all)), count((vectors + kMostVectors - 1) / kMostVectors) {}
  int64_t begin(int64_t panel) const { return vectors * panel / count * kLanes; }
  int64_t width(int64_t panel) const { return begin(panel + 1) - begin(panel); }
  int64_t filled(int64_t panel) const { return std::min(columns, begin(panel + 1)) - begin(panel); }
};

// k cut into parts of whole vectors, which a transposed right side is read by, as even as they go.
struct Parts {
  int64_t k, vectors, count;

  Parts(int64_t all, int64_t most) : k(all), vectors(VectorsFor(all)), count((vectors * kLanes + most - 1) / most) {}
  int64_t begin(int64_t part) const { return std::min(k, vectors * part / count * kLanes); }
};

// Of k, that a part has at most.
int64_t MostSteps(int64_t rows, bool part_by_part, const KernelTable& kernels) {
  constexpr int64_t kPartFloats = 96 * 1024;  // of a: three quarters of a second cache of 512 KiB
  constexpr int64_t kLeast = 128;
  const int64_t most = kernels.max_product_steps;
  return part_by_part ? std::min(most, std::max(kLeast, kPartFloats / rows)) : most;
}

// The steps of one thread's panels [begin, end): all parts of a panel, or all panels of a part.
struct Steps {
  struct Step {
    int64_t panel, part;
  };
  int64_t begin, end, parts;
  bool part_by_part;

  int64_t all() const { return (end - begin) * parts; }
  Step At(int64_t count) const {
    if (part_by_part) return {begin + count % (end - begin), count / (end - begin)};
    return {begin + count / parts, count % parts};
  }
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

// Of one panel, into c with rows of c_row floats.
ProductArgs MakeProduct(const RowsProduct& product, const Panels& panels, int64_t panel, int64_t k_begin, int64_t k_end,
                        const float* packed, float* c, int64_t c_row) {
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
  args.c = c;
  args.c_row = c_row;
  return args;
}

FetchAhead ReadBy(const PackRowsArgs& pack) {
  if (pack.transposed) return {pack.from, pack.from_row, pack.columns, pack.rows};
  return {pack.from, pack.from_row, pack.rows, pack.columns};
}

// Slice `slice` of `slices` of the rows of a, of its part [k_begin, k_end).
FetchAhead LeftSide(const RowsProduct& product, int64_t k_begin, int64_t k_end, int64_t slice, int64_t slices) {
  if (product.a_k != 1) return {};
  const int64_t row = product.rows * slice / slices;
  const int64_t rows = product.rows * (slice + 1) / slices - row;
  return {product.a + row * product.a_row + k_begin, product.a_row, static_cast<int>(rows), static_cast<int>(k_end - k_begin)};
}

// The panels [begin, end) of c, by one thread.
void RunPanels(const RowsProduct& product, const Panels& panels, int64_t begin, int64_t end, float* scratch, const KernelTable& kernels) {
  // The side that is read most often stays in the second cache: a part of a when k is long,
  // otherwise a panel of c.
  const bool part_by_part = product.k > product.columns && product.b_sums == nullptr;
  const Parts parts(product.k, MostSteps(product.rows, part_by_part, kernels));
  float* const sums = scratch;
  float* const packed = sums + kSumsFloats;
  const Steps steps{begin, end, parts.count, part_by_part};
  for (int64_t count = 0; count < steps.all(); ++count) {
    const auto [panel, part] = steps.At(count);
    const int64_t k_begin = parts.begin(part);
    const int64_t k_end = parts.begin(part + 1);
    if (part == 0) std::fill_n(sums, kSumsFloats, 0.0f);
    PackRowsArgs pack = MakePack(product, panels, panel, k_begin, k_end, packed);
    pack.sums = product.b_sums == nullptr ? nullptr : sums;
    pack.sum_weights = product.b_sum_weights == nullptr ? nullptr : product.b_sum_weights + k_begin;
    kernels.pack_rows(pack);
    ProductArgs args = MakeProduct(product, panels, panel, k_begin, k_end, packed, product.c + panels.begin(panel), product.c_row);
    args.fetch = true;
    if (count + 1 < steps.all()) {
      const auto [next_panel, next_part] = steps.At(count + 1);
      args.ahead[0] = ReadBy(MakePack(product, panels, next_panel, parts.begin(next_part), parts.begin(next_part + 1), packed));
    }
    if (part_by_part && part + 1 < parts.count) {
      args.ahead[1] = LeftSide(product, parts.begin(part + 1), parts.begin(part + 2), panel - begin, end - begin);
    }
    kernels.product(args);
    if (product.b_sums != nullptr && part + 1 == parts.count) {
      std::copy_n(sums, panels.filled(panel), product.b_sums + panels.begin(panel));
    }
  }
}

}  // namespace

size_t RowsProductScratchFloats(const RowsProduct& product, const CpuDevice& device) {
  if (device.bf16 != nullptr) return Bf16RowsProductScratchFloats(product, device.pool.threads());
  return static_cast<size_t>(device.pool.threads()) * ThreadFloats(device.kernels);
}

void RunRowsProduct(const RowsProduct& product, float* scratch, CpuDevice& device) {
  if (device.bf16 != nullptr) return RunBf16RowsProduct(product, scratch, device);
  const Panels panels(product.columns);
  if (product.a_k == 1 && product.rows > product.columns && product.k > product.columns && product.b_sums == nullptr) {
    // The left side is the large one. Each thread reads rows of its own, and packs all of b.
    constexpr int64_t kRows = 12;  // a product's block
    device.pool.Run((product.rows + kRows - 1) / kRows, [&](int64_t begin, int64_t end, int thread) {
      RowsProduct mine = product;
      mine.rows = std::min(product.rows, end * kRows) - begin * kRows;
      mine.a += begin * kRows * product.a_row;
      mine.c += begin * kRows * product.c_row;
      RunPanels(mine, panels, 0, panels.count, scratch + thread * ThreadFloats(device.kernels), device.kernels);
    });
    return;
  }
  device.pool.Run(panels.count, [&](int64_t begin, int64_t end, int thread) {
    RunPanels(product, panels, begin, end, scratch + thread * ThreadFloats(device.kernels), device.kernels);
  });
}

int64_t ProductPanels(int64_t columns, const CpuDevice& device) {
  return device.bf16 != nullptr ? Bf16ProductPanels(columns) : Panels(columns).count;
}

int64_t ProductPanelEnd(int64_t panel, int64_t columns, const CpuDevice& device) {
  return device.bf16 != nullptr ? Bf16ProductPanelEnd(panel, columns) : std::min(columns, Panels(columns).begin(panel + 1));
}

size_t PanelsProductScratchFloats(const RowsProduct& product, const CpuDevice& device) {
  if (device.bf16 != nullptr) return Bf16PanelsProductScratchFloats(product, device.pool.threads());
  return static_cast<size_t>(device.pool.threads()) * (ThreadFloats(device.kernels) + PanelFloats(product.rows));
}

void RunPanelsProduct(const RowsProduct& product, const float* next, int64_t next_row, float* scratch, CpuDevice& device, PanelDone done) {
  if (device.bf16 != nullptr) return RunBf16PanelsProduct(product, scratch, device, done);
  const Panels panels(product.columns);
  const Parts parts(product.k, device.kernels.max_product_steps);
  device.pool.Run(panels.count, [&](int64_t begin, int64_t end, int thread) {
    float* const packed = scratch + thread * (ThreadFloats(device.kernels) + PanelFloats(product.rows));
    float* const c = packed + ThreadFloats(device.kernels);
    const Steps steps{begin, end, parts.count, /*part_by_part=*/false};
    for (int64_t count = 0; count < steps.all(); ++count) {
      const auto [panel, part] = steps.At(count);
      const int64_t k_begin = parts.begin(part);
      const int64_t k_end = parts.begin(part + 1);
      device.kernels.pack_rows(MakePack(product, panels, panel, k_begin, k_end, packed));
      ProductArgs args = MakeProduct(product, panels, panel, k_begin, k_end, packed, c, panels.width(panel));
      args.fetch = true;
      if (count + 1 < steps.all()) {
        const auto [next_panel, next_part] = steps.At(count + 1);
        args.ahead[0] = ReadBy(MakePack(product, panels, next_panel, parts.begin(next_part), parts.begin(next_part + 1), packed));
      }
      const bool last = part + 1 == parts.count;
      if (next != nullptr && last) args.ahead[1] = {next + panels.begin(panel), next_row, args.rows, args.columns};
      device.kernels.product(args);
      if (last) done({panel, panels.begin(panel), panels.filled(panel), c, args.c_row});
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

namespace {

// The panels [begin, end) of c.
void RunPackedPanels(const RowsProduct& product, const Panels& panels, int64_t begin, int64_t end, const float* packed,
                     const KernelTable& kernels) {
  for (int64_t panel = begin; panel < end; ++panel) {
    const int64_t column = panels.begin(panel);
    kernels.product(MakeProduct(product, panels, panel, 0, product.k, packed + column * product.k, product.c + column, product.c_row));
  }
}

}  // namespace

void RunPackedProduct(const RowsProduct& product, const float* packed, float* scratch, CpuDevice& device) {
  if (device.bf16 != nullptr) return RunBf16PackedProduct(product, packed, scratch, device);
  const Panels panels(product.columns);
  device.pool.Run(panels.count,
                  [&](int64_t begin, int64_t end, int) { RunPackedPanels(product, panels, begin, end, packed, device.kernels); });
}

void RunPackedProductAlone(const RowsProduct& product, const float* packed, float* scratch, CpuDevice& device) {
  if (device.bf16 != nullptr) return RunBf16PackedProductAlone(product, packed, scratch, device);
  const Panels panels(product.columns);
  RunPackedPanels(product, panels, 0, panels.count, packed, device.kernels);
}

}  // namespace trainyard::engine
