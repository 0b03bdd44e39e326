// The table of one instruction set, and the multiply-adds that its peak is measured with.
#include "trainer/backend/cpu/kernels.h"
#include "trainer/backend/cpu/kernels/bf16_kernels_of.h"
#include "trainer/backend/cpu/kernels/isa.h"
#include "trainer/backend/cpu/kernels/vec.h"

namespace trainyard::engine::TRAINYARD_ISA {

double MultiplyAdds(int64_t rounds, float* sink) {
  constexpr int kChains = kVectors >= 24 ? 16 : kVectors - 2;
  V sum[kChains];
  for (int i = 0; i < kChains; ++i) sum[i] = Splat(static_cast<float>(i));
  V factor = Splat(sink[0]);
  V term = Splat(sink[1]);
  for (int64_t round = 0; round < rounds; ++round) {
    for (int i = 0; i < kChains; ++i) sum[i] = sum[i] * factor + term;
  }
  V total = {};
  for (int i = 0; i < kChains; ++i) total += sum[i];
  StoreUnaligned(sink, total);
  return 2.0 * kLanes * kChains * static_cast<double>(rounds);
}

#define TRAINYARD_TEXT_INNER(x) #x
#define TRAINYARD_TEXT(x) TRAINYARD_TEXT_INNER(x)

const KernelTable kTable = {
    .isa = TRAINYARD_TEXT(TRAINYARD_ISA),
    .max_rows_vectors = kMaxRowsVectors,
    .rows_pixels = {0, RowsPixels(1), RowsPixels(2), RowsPixels(3), RowsPixels(4)},
    .max_sums = kMaxSums,
    .max_columns = kMaxColumns,
    .max_product_steps = kMaxProductSteps,
    .conv_forward = ConvForward,
    .conv_weight_gradient = ConvWeightGradient,
    .conv_weight_gradient_block = ConvWeightGradientBlock,
    .pack = Pack,
    .product = Product,
    .conv_rows = ConvRows,
    .winograd_input = WinogradInput,
    .winograd_output = WinogradOutput,
    .winograd_panels = {.input = WinogradPanelInput,
                        .output = WinogradPanelOutput,
                        .pool = WinogradPanelPool,
                        .output_gradient = WinogradPanelOutputGradient,
                        .weights = WinogradPanelWeights},
    .winograd_panel_input_gradient = WinogradPanelInputGradient,
    .winograd_output_gradient = WinogradOutputGradient,
    .winograd_weight_gradient = WinogradWeightGradient,
    .activate = ActivateVectors,
    .activate_gradient = ActivateGradient,
    .add = Add,
    .bias = Bias,
    .dropout = Dropout,
    .bias_gradient = BiasGradient,
    .max_pool = MaxPool,
    .max_pool_gradient = MaxPoolGradient,
    .average_pool = AveragePool,
    .average_pool_gradient = AveragePoolGradient,
    .batch_norm = {.moments = BatchNormMoments,
                   .apply = BatchNormApply,
                   .gradient_sums = BatchNormGradientSums,
                   .gradient_apply = BatchNormGradientApply},
    .sum_of_squares = SumOfSquares,
    .softmax = Softmax,
    .softmax_gradient = SoftmaxGradient,
    .cross_entropy = CrossEntropy,
    .cross_entropy_gradient = CrossEntropyGradient,
    .correct_count = CorrectCount,
    .squared_error = SquaredError,
    .squared_error_gradient = SquaredErrorGradient,
    .to_panels_f32 = ToPanelsF32,
    .to_panels_u8 = ToPanelsU8,
    .from_panels_f32 = FromPanelsF32,
    .from_panels_u8 = FromPanelsU8,
    .panels_to_rows = PanelsToRows,
    .pack_rows = PackRows,
    .dropout_rows = DropoutRows,
    .max_pool_rows = MaxPoolRows,
    .average_pool_rows = AveragePoolRows,
    .scale_rows = ScaleRows,
    .recurrent_step = RecurrentStep,
    .recurrent_step_gradient = RecurrentStepGradient,
    .softmax_rows = SoftmaxRows,
    .cross_entropy_rows = CrossEntropyRows,
    .cross_entropy_gradient_rows = CrossEntropyGradientRows,
    .correct_rows = CorrectRows,
    .exp_rows = ExpRows,
    .exp_rows_end = ExpRowsEnd,
    .bf16 = Bf16KernelsOf<RoundByIntegers>(ProductBf16),
    .multiply_adds = MultiplyAdds,
};

}  // namespace trainyard::engine::TRAINYARD_ISA
