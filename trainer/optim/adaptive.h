// Optimizers that scale each element's step by the history of its own gradient. The formulas are
// Keras 3's; PyTorch's are named where they differ. g: gradient, w: parameter, lr: learning rate,
// eps: epsilon; every other letter is a slot. All slots start at zero.
#pragma once

#include <memory>

#include "trainer/optim/optimizer.h"

namespace trainyard::engine {

// Duchi et al. 2011. s = s + g^2; w = w - lr * g / sqrt(s + initial + eps). The slot holds the sum
// without the initial value. PyTorch divides by sqrt(s + initial) + eps and starts from 0.
std::unique_ptr<Optimizer> MakeAdagrad(double initial_accumulator, double epsilon);

// Zeiler 2012. s = rho * s + (1 - rho) * g^2; d = g * sqrt(u + eps) / sqrt(s + eps); u = rho * u +
// (1 - rho) * d^2; w = w - lr * d. PyTorch: the same.
std::unique_ptr<Optimizer> MakeAdadelta(double rho, double epsilon);

// Tieleman, Hinton 2012. s = rho * s + (1 - rho) * g^2; step = lr * g / sqrt(s + eps); without
// momentum w = w - step, otherwise v = momentum * v + step; w = w - v. PyTorch divides by sqrt(s) +
// eps and keeps lr out of v.
std::unique_ptr<Optimizer> MakeRmsprop(double rho, double momentum, double epsilon);

// Kingma, Ba 2015. t = step + 1; m = m + (1 - beta1) * (g - m); v = v + (1 - beta2) * (g^2 - v);
// w = w - lr * sqrt(1 - beta2^t) / (1 - beta1^t) * m / (sqrt(v) + eps). PyTorch adds eps after the
// correction of v, so its eps weighs more in the first steps. AdamW (Loshchilov, Hutter 2019) is
// this with weight decay, see weight_decay.h.
std::unique_ptr<Optimizer> MakeAdam(double beta1, double beta2, double epsilon);

}  // namespace trainyard::engine
