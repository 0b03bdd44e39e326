// The cells of recurrent layers; ops/recurrent.h has their formulas. Apart from op.h, since kernels
// include it.
#pragma once

#include <stdint.h>

namespace trainyard::engine {

enum class Cell : uint8_t { kSimpleRnn, kLstm, kGru };

}  // namespace trainyard::engine
