// Stochastic gradient descent, plain and with momentum. g: gradient, w: parameter, v: slot
// "momentum", lr: learning rate, m: momentum factor.
#pragma once

#include <memory>

#include "trainer/optim/optimizer.h"

namespace trainyard::engine {

// w = w - lr * g
std::unique_ptr<Optimizer> MakeSgd();

// Keras' formula: v = m * v - lr * g; w = w + v, and with `nesterov` w = w + m * v - lr * g (the
// new v). PyTorch keeps lr out of v: v = m * v + g; w = w - lr * v. Both give the same sequence
// while the learning rate is constant. A schedule makes them differ.
std::unique_ptr<Optimizer> MakeMomentum(double momentum, bool nesterov);

}  // namespace trainyard::engine
