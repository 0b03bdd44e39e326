// Convolutions by 3x3 windows in fewer multiplications: Winograd's F(2x2, 3x3) in 4/9 of them, or
// F(4x4, 3x3) in 1/4. A sum's terms are put together otherwise than by conv_forward, so the last
// bits differ.
#pragma once

#include <memory>
#include <optional>

#include "trainer/backend/cpu/conv_geometry.h"
#include "trainer/backend/cpu/device.h"

namespace trainyard::engine {

// The pixels of y to a side of a tile, 2 or 4. 0 where the transforms do not pay: they want 3x3
// windows side by side, and channels in whole vectors. A function of one image's geometry, so that
// the batch size changes no bit.
int WinogradTile(const ConvGeometry& geometry);

std::unique_ptr<Kernel> MakeWinograd(CpuDevice& device, const ConvGeometry& geometry, int tile, const Epilogue& epilogue,
                                     const std::optional<PoolArgs>& pool);

}  // namespace trainyard::engine
