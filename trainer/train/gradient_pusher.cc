#include "trainer/train/gradient_pusher.h"

#include "trainer/optim/clip.h"

namespace trainyard::engine {

void GradientPusher::Begin(float weight) {
  weight_ = weight;
  held_.clear();
}

void GradientPusher::Ready(int key) {
  if (HoldsBack()) {
    held_.push_back(key);
  } else {
    sum_.Ready(key);
  }
}

void GradientPusher::End() {
  if (weight_ != 1.0F) {
    for (const int key : held_) {
      if (gradients_.spec(key).trainable) ScaleGradient(weight_, key, gradients_, options_.threads);
    }
  }
  if (options_.clip_norm > 0) ClipByGlobalNorm(options_.clip_norm, gradients_, options_.threads);
  for (const int key : held_) sum_.Ready(key);
}

}  // namespace trainyard::engine
