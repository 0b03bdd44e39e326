// Between backward and the updater.
#pragma once

#include <cstdint>
#include <vector>

#include "trainer/backend/executor.h"
#include "trainer/optim/updater.h"
#include "trainer/tensor/parameter_set.h"

namespace trainyard::engine {

struct GradientPusherOptions {
  double clip_norm = 0;    // 0: gradients are not clipped
  bool may_skip = false;   // a step may have to be left out, once its gradients are known
  bool every_key = false;  // in a round of sync mode a part of the model that a step left no next value for is told of, too
};

// Next values of parameters that are not trainable pass as they are. Gradients that need a look at all of them first (clipping, unequal
// shares of a batch, those that may have to be left out) are held back until backward is done; all others leave at once.
// Used from the step loop's thread, and in backward from the executor's. `updater` and `gradients` must outlive it.
class GradientPusher final : public GradientSink {
 public:
  GradientPusher(Updater& updater, ParameterSet& gradients, const GradientPusherOptions& options)
      : updater_(updater), gradients_(gradients), options_(options) {}

  // `weight` is what this worker's mean must be multiplied by to make the mean over the workers the mean over all examples of the step.
  void Begin(int64_t step, float weight);
  void Ready(int key) override;
  void End();

 private:
  bool HoldsBack() const { return options_.may_skip || options_.clip_norm > 0 || weight_ != 1.0F; }
  void PushHeld();

  Updater& updater_;
  ParameterSet& gradients_;
  const GradientPusherOptions options_;
  int64_t step_ = 0;
  float weight_ = 1.0F;
  std::vector<int> ready_;
};

}  // namespace trainyard::engine
