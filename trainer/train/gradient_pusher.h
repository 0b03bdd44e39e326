// Between a device's backward and the sum over the devices.
#pragma once

#include <vector>

#include "trainer/backend/executor.h"
#include "trainer/tensor/parameter_set.h"
#include "trainer/train/device_sum.h"

namespace trainyard::engine {

struct GradientPusherOptions {
  double clip_norm = 0;           // 0: gradients are not clipped
  bool may_skip = false;          // a step may have to be left out, once its gradients are known
  ThreadPool* threads = nullptr;  // of the device, that clip; null: the caller of End
};

// Next values of parameters that are not trainable pass as they are. Clipping, unequal shares of a
// batch and a step that may have to be left out need a look at all gradients first. There gradients
// are held back until backward is done. All others leave at once. Used from the device's thread.
// `sum` and `gradients`, the device's, must outlive it.
class GradientPusher final : public GradientSink {
 public:
  GradientPusher(DeviceSum& sum, ParameterSet& gradients, const GradientPusherOptions& options)
      : sum_(sum), gradients_(gradients), options_(options) {}

  // `weight` is what this device's mean must be multiplied by to make the mean over the devices the
  // mean over all examples of the step.
  void Begin(float weight);
  void Ready(int key) override;
  void End();

 private:
  bool HoldsBack() const { return options_.may_skip || options_.clip_norm > 0 || weight_ != 1.0F; }

  DeviceSum& sum_;
  ParameterSet& gradients_;
  const GradientPusherOptions options_;
  float weight_ = 1.0F;
  std::vector<int> held_;  // keys
};

}  // namespace trainyard::engine
