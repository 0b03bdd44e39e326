// The update rule of a training step, on plain spans. Workers and parameter servers run the same
// code, on whole tensors or on parts of them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "trainer/base/thread_pool.h"
#include "trainer/tensor/touched_rows.h"

namespace trainyard::engine {

struct UpdateContext {
  double learning_rate = 0;  // of this step: LearningRateAt(...) in lr_schedule.h
  int64_t step = 0;          // how many updates this parameter has had before this one; 0 for the first
};

// Every rule is element-wise: element i of param and slots changes only by element i of grad. So
// ranges of a tensor, over servers or threads, give the same bits as one call over all of it. These
// files are compiled without contraction into fused multiply-adds, so vector width and tail change
// no bit either.
// Immutable after construction; Apply may be called from several threads at once on ranges that do
// not overlap. Never allocates.
class Optimizer {
 public:
  virtual ~Optimizer() = default;

  // The state kept for each parameter, one tensor of the parameter's shape each, zero at first.
  // Checkpoints hold it as "<parameter>/<slot>".
  virtual std::vector<std::string> slot_names() const = 0;

  // Changes param and slots in place. `slots` are in the order of slot_names(); all spans have
  // param's length.
  virtual void Apply(const UpdateContext& context, std::span<float> param, std::span<const float> grad,
                     std::span<const std::span<float>> slots) const = 0;

  // True: an element whose gradient is +0 keeps its value and its slots, bit for bit. Then Apply on
  // the rows that a gradient touches equals Apply on all rows. Rules with momentum, decaying means
  // or weight decay must see every element.
  virtual bool KeepsWhereGradientIsZero() const { return false; }
};

// Apply on a whole tensor of shape [rows, ..]; `gradient` may list the rows that it touches. The
// bits are those of Apply with all values. Where the rule allows it, the other rows cost nothing.
// row_elements: the elements of a row. A large gradient is divided among `threads`; null: the
// caller alone.
void ApplyGradient(const Optimizer& optimizer, const UpdateContext& context, std::span<float> param, const GradientView& gradient,
                   size_t row_elements, std::span<const std::span<float>> slots, ThreadPool* threads = nullptr);
inline constexpr size_t kMostSlots = 4;  // of any optimizer

}  // namespace trainyard::engine
