// Convolutions by 3x3 and 5x5 windows of stride 1 on panels, by Winograd's F(4x4, 3x3), F(2x2, 3x3)
// and F(2x2, 5x5): 1/4, 4/9 and 9/25 of the multiplications (Lavin and Gray 2016, "Fast Algorithms
// for Convolutional Neural Networks"). Tiles of 4x4 or 6x6 pixels are transformed, and each of
// their 16 or 36 elements is a product over channels: conv_forward by 1x1, whose pixels are tiles.
// What a thread does at a time stays in its second cache. Values may lie as f32 or as pairs of
// bfloat16; weights are rounded where a device multiplies in bfloat16. Transformed values are f32,
// or whole numbers (kernels/winograd_whole.h).
#pragma once

#include <cstddef>

#include "trainer/backend/cpu/behind_rows.h"
#include "trainer/backend/cpu/device.h"
#include "trainer/backend/cpu/kernels.h"

namespace trainyard::engine {

// Whether the transforms cost less than they save. A pool of 2x2 windows is part of the transform
// back; other pools are not served.
bool PrefersWinogradConv2d(const ConvForwardArgs& args, const CpuDevice& device);
// Of one image: the columns of its products.
int WinogradTilesAtATime(const ConvForwardArgs& args);
// The rows of y that a thread stores at a time; 0 where it stores parts of rows.
int WinogradRowsAtATime(const ConvForwardArgs& args);

// Floats of transformed and packed weights, and what packing needs beside them.
size_t WinogradWeightFloats(const ConvShape& shape);
// Of the kernels in args.weights, for forward convolutions or, transposed, for
// winograd_input_gradient.h.
void RunWinogradPack(const PackArgs& args, CpuDevice& device);

// Floats of ConvForwardArgs::scratch, of all threads.
size_t WinogradScratchFloats(const ConvForwardArgs& args, int threads);
// All of the work of RunConvForward, from weights of RunWinogradPack.
void RunWinogradConvForward(const ConvForwardArgs& args, CpuDevice& device, const BehindRows* behind);

}  // namespace trainyard::engine
