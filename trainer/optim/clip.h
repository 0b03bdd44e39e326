// Scaling gradients before they are pushed; rows that a gradient does not touch cost nothing and
// change nothing. Large tensors are divided among `threads`, whose number changes no bit; null: the
// caller alone.
#pragma once

#include "trainer/base/thread_pool.h"
#include "trainer/tensor/parameter_set.h"

namespace trainyard::engine {

// Scales all gradients by clip_norm / norm when norm = sqrt(sum of squares over every element) is
// larger than clip_norm > 0 (Pascanu et al. 2013; tf.clip_by_global_norm). Returns the norm before
// scaling. The sum is made in double in one fixed order, so the same gradients give the same bits
// everywhere. A norm that is infinite or NaN leaves the gradients as they are: the caller sees it
// in the value returned. A worker calls it on its own gradients before it pushes them; with several
// workers each clips its own, as in the studies.
double ClipByGlobalNorm(double clip_norm, ParameterSet& gradients, ThreadPool* threads = nullptr);

// Multiplies the gradient of `key` by a finite factor.
void ScaleGradient(float factor, int key, ParameterSet& gradients, ThreadPool* threads = nullptr);

}  // namespace trainyard::engine
