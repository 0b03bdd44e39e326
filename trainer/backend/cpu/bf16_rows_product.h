// Products of values in rows with operands of bfloat16: what rows_product.h does where the device
// multiplies so.
#pragma once

#include <cstddef>

#include "trainer/backend/cpu/device.h"
#include "trainer/backend/cpu/rows_product_args.h"

namespace trainyard::engine {

size_t Bf16RowsProductScratchFloats(const RowsProduct& product, int threads);
void RunBf16RowsProduct(const RowsProduct& product, float* scratch, CpuDevice& device);

size_t Bf16PackedFloats(int64_t k, int64_t columns);
void PackBf16RightSide(const RowsProduct& product, float* packed, CpuDevice& device);
size_t Bf16PackedProductScratchFloats(int64_t rows, int64_t k);
void RunBf16PackedProduct(const RowsProduct& product, const float* packed, float* scratch, CpuDevice& device);

}  // namespace trainyard::engine
