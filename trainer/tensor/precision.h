// The precisions that a job may ask for.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace trainyard::engine {

// kBfloat16: the operands of matrix products and convolutions, forward and backward, are rounded to
// bfloat16, to nearest even. So are values between convolutions, where they are stored
// (backend/narrow_values.h). Sums are f32, and so is everything else: parameters, losses,
// statistics, updates.
// kFloat16: on GPUs alone. The same with IEEE 754 binary16 in the place of bfloat16. Its range is
// small, so a training multiplies the loss by a scale (optim/loss_scale.h).
// kTf32: on GPUs alone. Operands are rounded to the 10 bits of tf32 inside a product; all values
// are f32. NVIDIA, "A100 Tensor Core GPU Architecture" describes tf32.
enum class Precision : uint8_t { kFloat32, kBfloat16, kFloat16, kTf32 };

inline constexpr std::array<std::string_view, 4> kPrecisionNames = {"float32", "bfloat16", "float16", "tf32"};  // [Precision]
constexpr std::string_view PrecisionName(Precision precision) { return kPrecisionNames[static_cast<size_t>(precision)]; }
// Whether operands, and values between convolutions, have 16 bits.
constexpr bool Narrows(Precision precision) { return precision == Precision::kBfloat16 || precision == Precision::kFloat16; }
constexpr bool IsOfGpus(Precision precision) { return precision == Precision::kFloat16 || precision == Precision::kTf32; }

}  // namespace trainyard::engine
