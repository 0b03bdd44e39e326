#include "trainer/backend/cpu/conv_shape.h"

#include "trainer/backend/cpu/layout.h"
#include "trainer/base/status_macros.h"
#include "trainer/graph/window.h"

namespace trainyard::engine {

absl::StatusOr<ConvShape> MakeConvShape(const Window& window, const Shape& x, const Shape& kernel) {
  TY_ASSIGN_OR_RETURN(const WindowGeometry geometry, PlaceWindow(window, x));
  ConvShape shape;
  shape.panels = static_cast<int>(PanelLayout(x).panels);
  shape.in_h = static_cast<int>(geometry.in[0]);
  shape.in_w = static_cast<int>(geometry.in[1]);
  shape.channels = static_cast<int>(kernel[2]);
  shape.out_h = static_cast<int>(geometry.out[0]);
  shape.out_w = static_cast<int>(geometry.out[1]);
  shape.outputs = static_cast<int>(kernel[3]);
  shape.kernel_h = window.size[0];
  shape.kernel_w = window.size[1];
  shape.stride_h = window.stride[0];
  shape.stride_w = window.stride[1];
  shape.pad_top = static_cast<int>(geometry.pad_before[0]);
  shape.pad_left = static_cast<int>(geometry.pad_before[1]);
  return shape;
}

}  // namespace trainyard::engine
