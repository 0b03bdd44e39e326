// The kernels of bfloat16 that round in one way, and multiply in another.
#pragma once

#include "trainer/backend/cpu/kernels.h"
#include "trainer/backend/cpu/kernels/batch_norm.h"
#include "trainer/backend/cpu/kernels/bf16_pack.h"
#include "trainer/backend/cpu/kernels/bf16_turn.h"
#include "trainer/backend/cpu/kernels/bf16_values.h"
#include "trainer/backend/cpu/kernels/dropout.h"
#include "trainer/backend/cpu/kernels/panels_to_rows.h"
#include "trainer/backend/cpu/kernels/recurrent.h"
#include "trainer/backend/cpu/kernels/row_values.h"
#include "trainer/backend/cpu/kernels/rows_exp.h"
#include "trainer/backend/cpu/kernels/unpool.h"
#include "trainer/backend/cpu/kernels/winograd_panels.h"

namespace trainyard::engine {
namespace {

template <typename Round>
constexpr Bf16Kernels Bf16KernelsOf(void (*product)(const Bf16ProductArgs&), void (*product_to_pairs)(const Bf16ProductArgs&) = nullptr) {
  return {.pack_left_rows = PackRowsLeft<Round>,
          .pack_left_columns = PackColumnsLeft<Round>,
          .pack_right = PackColumnsRight<WideSource<Round>>,
          .pack_right_rounded = PackColumnsRight<RoundedSource>,
          .pack_right_rows = PackRowsRight<Round>,
          .turn_left = TurnLeft,
          .turn_right = TurnRight,
          .to_pairs = PairValues<Round>::FromWide,
          .from_pairs = PairValues<Round>::ToWide,
          .sum_to_pairs = PairValues<Round>::SumFromWide,
          .add = PairValues<Round>::Add,
          .activate = PairValues<Round>::Activate,
          .activate_gradient = PairValues<Round>::ActivateGradient,
          .dropout = DropoutOf<PairPanels<Round>>::Run,
          .max_pool_gradient = UnpoolOf<PairPanels<Round>>::Run,
          .batch_norm = BatchNormOf<PairPanels<Round>>::kKernels,
          .winograd = WinogradPanelsOf<PairPanels<Round>>::kKernels,
          .winograd_whole = {},
          .pairs_to_rows = RowsOf<PairPanels<Round>>::Run,
          .exp_rows = ExpRowsOf<RoundedRows<Round>>::Run,
          .exp_rows_end = ExpRowsOf<RoundedRows<Round>>::End,
          .lstm_step = LstmSteps<FractionRows>::Run,
          .lstm_step_gradient = LstmSteps<FractionRows>::RunGradient,
          .begin = nullptr,
          .end = nullptr,
          .product = product,
          .product_to_pairs = product_to_pairs};
}

}  // namespace
}  // namespace trainyard::engine
