// The geometry of a window that the builder has accepted, as bodies take it.
#pragma once

#include "trainer/backend/cuda/window_bodies.h"
#include "trainer/base/check.h"
#include "trainer/graph/window.h"

namespace trainyard::engine::cuda {

// `input` is [N, H, W, C].
inline WindowPlace PlaceOf(const Window& window, const Shape& input) {
  const absl::StatusOr<WindowGeometry> geometry = PlaceWindow(window, input);
  TY_CHECK(geometry.ok());
  WindowPlace place{};
  for (int axis = 0; axis < 2; ++axis) {
    place.in[axis] = static_cast<int32_t>(geometry->in[axis]);
    place.out[axis] = static_cast<int32_t>(geometry->out[axis]);
    place.pad[axis] = static_cast<int32_t>(geometry->pad_before[axis]);
    place.size[axis] = window.size[axis];
    place.stride[axis] = window.stride[axis];
    place.over_in[axis] = place.in[axis];
    place.over_out[axis] = place.out[axis];
    place.over_size[axis] = place.size[axis];
  }
  place.channels = input[3];
  place.over_channels = place.channels;
  return place;
}

}  // namespace trainyard::engine::cuda
