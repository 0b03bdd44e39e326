// How kernels that are compiled for both read and write the values of a panel: as f32, or as
// bfloat16 in pairs of channels. Places count elements, and are the same in both.
#pragma once

#include "trainer/backend/cpu/kernels/vec.h"

namespace trainyard::engine {
namespace {

// Panels of f32: a vector is one channel.
struct WidePanels {
  using Element = float;
  static constexpr int kChannels = 1;  // of one Load
  static void Load(const Element* from, V* values) { values[0] = engine::Load(from); }
  static void Store(Element* to, const V* values) { engine::Store(to, values[0]); }
  static V Rounded(V value) { return value; }  // as Store leaves it
};

}  // namespace
}  // namespace trainyard::engine
