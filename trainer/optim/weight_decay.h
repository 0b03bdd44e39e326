// Decoupled weight decay around any optimizer (Loshchilov, Hutter 2019, "Decoupled Weight Decay
// Regularization"; Keras' weight_decay).
#pragma once

#include <memory>

#include "trainer/optim/optimizer.h"

namespace trainyard::engine {

// w = w - w * (learning rate * decay), then `inner`'s rule. The gradient and the inner slots do not
// see the decay: this is not the L2 term that PyTorch's SGD adds to the gradient. Biases decay too,
// as in Keras.
std::unique_ptr<Optimizer> MakeWeightDecay(double decay, std::unique_ptr<Optimizer> inner);

}  // namespace trainyard::engine
