// Weights and bias of a product in rows, packed once for inference.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>

#include "trainer/backend/cpu/device.h"
#include "trainer/backend/cpu/layout.h"
#include "trainer/tensor/buffer.h"

namespace trainyard::engine {

// Parameters of a product [k][columns]; all but the weights may be null. Batch normalisation by
// moving statistics becomes part of weights and bias.
struct RowsParameters {
  const float* weights = nullptr;
  const float* bias = nullptr;  // [columns], as are all below
  const float* gamma = nullptr;
  const float* beta = nullptr;
  const float* mean = nullptr;
  const float* variance = nullptr;
  float epsilon = 0;
  // Not 0: weights are [3][3][inputs][columns], packed as the elements of their transform for tiles
  // of so many pixels of y to a side (inference_winograd.h), k = elements * inputs.
  int winograd_tile = 0;
};

// Those of a Conv2d's inputs.
RowsParameters ParametersOf(const Epilogue& epilogue, std::span<const void* const> inputs);

// How many vectors of columns a panel has at most, so that conv_rows is fastest where it is called
// for `pixels` pixels.
int RowsVectors(int64_t columns, int64_t pixels, const KernelTable& kernels);

// The columns cut into panels of at most `most_vectors` whole vectors, as even as they go. A panel
// is [k][width], as conv_rows takes it.
class RowsWeights {
 public:
  RowsWeights() = default;
  RowsWeights(int64_t k, int64_t columns, int most_vectors)
      : k_(k), columns_(columns), vectors_(VectorsFor(columns)), panels_((vectors_ + most_vectors - 1) / most_vectors) {}

  // Once, before what is below. Executors of the same parameters share the memory.
  void Pack(const RowsParameters& parameters, CpuDevice& device);

  int64_t panels() const { return panels_; }
  int64_t begin(int64_t panel) const { return vectors_ * panel / panels_ * kLanes; }
  int64_t width(int64_t panel) const { return begin(panel + 1) - begin(panel); }
  int filled(int64_t panel) const { return static_cast<int>(std::min(columns_, begin(panel + 1)) - begin(panel)); }
  const float* bias(int64_t panel) const { return memory_.get() + begin(panel); }
  const float* weights(int64_t panel) const { return memory_.get() + vectors_ * kLanes + begin(panel) * k_; }

 private:
  void Fill(const RowsParameters& parameters, float* memory, CpuDevice& device) const;

  int64_t k_ = 0, columns_ = 0, vectors_ = 0, panels_ = 1;
  std::shared_ptr<const float> memory_;  // the bias in whole vectors, then the panels
};

}  // namespace trainyard::engine
