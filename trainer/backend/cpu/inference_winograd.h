// Convolutions by 3x3 windows in 4/9 of the multiplications: Winograd's F(2x2, 3x3). A sum's terms
// are put together otherwise than by conv_forward, so the last bits differ.
#pragma once

#include <memory>
#include <optional>

#include "trainer/backend/cpu/conv_geometry.h"
#include "trainer/backend/cpu/device.h"

namespace trainyard::engine {

// Whether the transforms pay: 3x3 windows side by side, and channels in whole vectors.
bool PrefersWinograd(const ConvGeometry& geometry);

std::unique_ptr<Kernel> MakeWinograd(CpuDevice& device, const ConvGeometry& geometry, const Epilogue& epilogue,
                                     const std::optional<PoolArgs>& pool);

}  // namespace trainyard::engine
