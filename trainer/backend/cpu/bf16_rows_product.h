// Products of values in rows with operands of bfloat16: what rows_product.h does where the device
// multiplies so.
#pragma once

#include <cstddef>

#include "absl/functional/function_ref.h"
#include "trainer/backend/cpu/device.h"
#include "trainer/backend/cpu/rows_product_args.h"

namespace trainyard::engine {

size_t Bf16RowsProductScratchFloats(const RowsProduct& product, int threads);
void RunBf16RowsProduct(const RowsProduct& product, float* scratch, CpuDevice& device);

int64_t Bf16ProductPanels(int64_t columns);
int64_t Bf16ProductPanelEnd(int64_t panel, int64_t columns);
size_t Bf16PanelsProductScratchFloats(const RowsProduct& product, int threads);
void RunBf16PanelsProduct(const RowsProduct& product, float* scratch, CpuDevice& device, absl::FunctionRef<void(const ProductPanel&)> done);

size_t Bf16PackedFloats(int64_t k, int64_t columns);
void PackBf16RightSide(const RowsProduct& product, float* packed, CpuDevice& device);
size_t Bf16PackedProductScratchFloats(int64_t rows, int64_t k);
void RunBf16PackedProduct(const RowsProduct& product, const float* packed, float* scratch, CpuDevice& device);
void RunBf16PackedProductAlone(const RowsProduct& product, const float* packed, float* scratch, CpuDevice& device);

}  // namespace trainyard::engine
