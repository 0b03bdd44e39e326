#include "trainer/train/gradient_pusher.h"

#include <algorithm>

#include "trainer/optim/clip.h"

namespace trainyard::engine {

void GradientPusher::Begin(int64_t step, float weight) {
  step_ = step;
  weight_ = weight;
  ready_.clear();
}

void GradientPusher::Ready(int key) {
  ready_.push_back(key);
  if (!HoldsBack()) updater_.Push(key, gradients_.gradient(key), step_);
}

void GradientPusher::End() {
  if (HoldsBack()) PushHeld();
  if (!options_.every_key || ready_.size() == static_cast<size_t>(gradients_.size())) return;
  for (int key = 0; key < gradients_.size(); ++key) {
    if (std::ranges::find(ready_, key) == ready_.end()) updater_.PushNothing(key, step_);
  }
}

void GradientPusher::PushHeld() {
  if (weight_ != 1.0F) {
    for (const int key : ready_) {
      if (gradients_.spec(key).trainable) ScaleGradient(weight_, key, gradients_);
    }
  }
  if (options_.clip_norm > 0) ClipByGlobalNorm(options_.clip_norm, gradients_);
  for (const int key : ready_) updater_.Push(key, gradients_.gradient(key), step_);
}

}  // namespace trainyard::engine
