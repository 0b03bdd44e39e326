// Products of values in rows: c = a b. The columns of b are lanes. Every row of a is computed for
// itself, so the costs grow with the rows. The right side is repacked into panels of a few vectors
// that stay in the nearest cache. Where the device multiplies in bf16, bf16_rows_product.h does the
// work. Sums run over k in one order, whatever the number of rows and
// threads.
#pragma once

#include <cstddef>
#include <cstdint>

#include "trainer/backend/cpu/device.h"

namespace trainyard::engine {

// c [rows][columns] = bias + (accumulate: c +) sum over k of a[row][k] b[k][column].
struct RowsProduct {
  int64_t rows = 0, columns = 0, k = 0;
  const float* a = nullptr;  // a[row][k] at row * a_row + k * a_k
  int64_t a_row = 0, a_k = 1;
  const float* b = nullptr;  // b[k][column] at k * b_row + column, transposed: at column * b_row + k
  int64_t b_row = 0;
  bool b_transposed = false;
  const float* bias = nullptr;  // [columns] or null; not with accumulate
  bool accumulate = false;
  float* c = nullptr;
  int64_t c_row = 0;
  float* b_sums = nullptr;  // not transposed: [columns] becomes the sum of b over k; may be null
};

// Floats of scratch: a function of the product's sizes, not of its pointers.
size_t RowsProductScratchFloats(const RowsProduct& product, const CpuDevice& device);
void RunRowsProduct(const RowsProduct& product, float* scratch, CpuDevice& device);

// The right side of several products, packed once: floats of it, the packing, and a product with
// it. `product` gives k, columns and b.
size_t PackedFloats(int64_t k, int64_t columns, const CpuDevice& device);
void PackRightSide(const RowsProduct& product, float* packed, CpuDevice& device);
// b, b_row and b_transposed are not looked at. The scratch is of PackedProductScratchFloats.
size_t PackedProductScratchFloats(int64_t rows, int64_t k, const CpuDevice& device);
void RunPackedProduct(const RowsProduct& product, const float* packed, float* scratch, CpuDevice& device);

}  // namespace trainyard::engine
