// Products of values in rows: c = a b. The columns of b are lanes. Every row of a is computed for
// itself, so the costs grow with the rows. The right side is repacked into panels of a few vectors
// that stay in a near cache. Where the device multiplies in bf16, bf16_rows_product.h does the
// work. Sums run over k in one order, whatever the number of rows and threads.
#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/functional/function_ref.h"
#include "trainer/backend/cpu/device.h"
#include "trainer/backend/cpu/rows_product_args.h"

namespace trainyard::engine {

// Floats of scratch: a function of the product's sizes, not of its pointers.
size_t RowsProductScratchFloats(const RowsProduct& product, const CpuDevice& device);
void RunRowsProduct(const RowsProduct& product, float* scratch, CpuDevice& device);

// The same product panel by panel: c is written to no memory but a thread's own, which stays in its
// second cache where the rows are no more than a thousand. `done` has each panel once, in any
// order, from any thread. a_k is 1. While a panel is computed, the same columns of `next`,
// [rows][next_row], are brought into the caches (float32 only); null: nothing.
using PanelDone = absl::FunctionRef<void(const ProductPanel&)>;
int64_t ProductPanels(int64_t columns, const CpuDevice& device);
int64_t ProductPanelEnd(int64_t panel, int64_t columns, const CpuDevice& device);  // the column behind it
size_t PanelsProductScratchFloats(const RowsProduct& product, const CpuDevice& device);
void RunPanelsProduct(const RowsProduct& product, const float* next, int64_t next_row, float* scratch, CpuDevice& device, PanelDone done);

// The right side of several products, packed once: floats of it, the packing, and a product with
// it. `product` gives k, columns and b.
size_t PackedFloats(int64_t k, int64_t columns, const CpuDevice& device);
void PackRightSide(const RowsProduct& product, float* packed, CpuDevice& device);
// b, b_row and b_transposed are not looked at. The scratch is of PackedProductScratchFloats.
size_t PackedProductScratchFloats(int64_t rows, int64_t k, const CpuDevice& device);
void RunPackedProduct(const RowsProduct& product, const float* packed, float* scratch, CpuDevice& device);
// The same on the calling thread alone, which may be one of the device's pool.
void RunPackedProductAlone(const RowsProduct& product, const float* packed, float* scratch, CpuDevice& device);

}  // namespace trainyard::engine
