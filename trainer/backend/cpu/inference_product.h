// Products of rows with weights that are packed once: dense layers and 1x1 convolutions of
// inference.
#pragma once

#include "trainer/backend/cpu/rows_weights.h"

namespace trainyard::engine {

// y [rows][columns] = act(x [rows][k] weights + bias + add), all without gaps.
struct InferenceProduct {
  int64_t rows = 0, k = 0, columns = 0;
  const float* x = nullptr;
  const float* add = nullptr;  // null: nothing
  float* y = nullptr;          // in whole vectors at the end of a value
  Activation activation = Activation::kIdentity;
  // Scale and shift of each k, done to x first (BatchNormArgs); null: nothing.
  const float* scale = nullptr;
  const float* shift = nullptr;
  bool relu = false;         // behind them
  float* scratch = nullptr;  // with scale: of InferenceProductScratchFloats
};

// Of all threads, whatever the rows.
int64_t InferenceProductScratchFloats(int64_t k, const CpuDevice& device);

void RunInferenceProduct(const InferenceProduct& product, const RowsWeights& weights, CpuDevice& device);

// What is left to do where the kernels themselves only cut off below 0.
void ActivateRows(float* y, int64_t elements, Activation activation, CpuDevice& device);

}  // namespace trainyard::engine
