// A mini-batch in host memory, reused from step to step.
#pragma once

#include <cstdint>
#include <span>

#include "trainer/data/stage_log.h"
#include "trainer/tensor/buffer.h"
#include "trainer/tensor/tensor.h"

namespace trainyard::engine {

// x: [examples, example shape…], U8 (pixels) or F32; y: [examples] I32 class numbers, or [examples,
// targets…] F32. Row-major, images NHWC. The tensors are views into the batch's own buffers, which
// only grow: a batch of the same size again allocates nothing.
struct Batch {
  Tensor x;
  Tensor y;
  float x_scale = 1.0F;         // a model sees x * x_scale; 1/255 for pixels, so that images are 0…1
  int64_t examples = 0;         // fewer than batchSize in the last one of an epoch
  int64_t global_examples = 0;  // of this step over all workers: the divisor of a gradient's mean in sync modes
  int64_t epoch = 0;
  int64_t step = 0;  // since the start of training, counted from 0
  int64_t step_in_epoch = 0;
  bool last_in_epoch = false;

  // Points x and y at memory for `new_examples` examples of the given element types and per-example
  // shapes. Their contents are then unspecified.
  void Resize(int64_t new_examples, DType x_dtype, const Shape& example_shape, DType y_dtype, const Shape& label_shape);

  StageLog stages;  // of its making

  // Like Resize for x alone, whose memory is kept as `x_before` and returned: to make new examples
  // out of the present ones.
  Tensor ReplaceX(DType x_dtype);

  Buffer x_memory;
  Buffer y_memory;
  Buffer x_before;  // for stages that cannot change x in place
};

// x * x_scale as F32 into `out`, which holds x.shape.elements().
void CopyExamplesAsF32(const Batch& batch, std::span<float> out);

}  // namespace trainyard::engine
