// The work that a device can be given, as data: a body and how often it runs. The kernels of the
// driver and the loops of the host tests are both made from this list.
#pragma once

#include <cstdint>
#include <variant>

#include "trainer/backend/cuda/elementwise_bodies.h"
#include "trainer/backend/cuda/loss_bodies.h"
#include "trainer/backend/cuda/sequence_bodies.h"
#include "trainer/backend/cuda/sum_bodies.h"
#include "trainer/backend/cuda/sum_order.h"
#include "trainer/backend/cuda/update_bodies.h"
#include "trainer/backend/cuda/window_bodies.h"

namespace trainyard::engine::cuda {

// Does a body take neighbours (elementwise_bodies.h)?
template <typename B>
inline constexpr bool kTakesNeighbours = requires(const B& body) { body.neighbours(); };

// body(i) for all i in [0, count), in any order and at once.
template <typename B>
struct Each {
  B body;
  int64_t count;
};

// The sums of `terms` terms each, `outputs` of them. partial: PartialBytes of device memory, null
// where there is one split only.
template <typename B>
struct Reduce {
  B body;
  int64_t outputs;
  int64_t terms;
  void* partial;

  SumOrder order() const { return OrderOf(B::kAcross, outputs, terms); }
};

template <typename B>
size_t PartialBytes(int64_t outputs, int64_t terms) {
  const SumOrder order = OrderOf(B::kAcross, outputs, terms);
  return order.splits == 1 ? 0 : static_cast<size_t>(order.splits * outputs) * sizeof(typename B::Sum);
}

using Work = std::variant<
    Each<Fill>, Each<ScaleBytes>, Each<BiasActivate<float>>, Each<BiasActivate<Bfloat16>>, Each<BiasActivate<Float16>>,
    Each<ActivateBack<float>>, Each<ActivateBack<Bfloat16>>, Each<ActivateBack<Float16>>, Each<AddTerms<float>>, Each<AddTerms<Bfloat16>>,
    Each<AddTerms<Float16>>, Each<CopyRows<float, float>>, Each<Transpose<float, float>>, Each<Transpose<float, Bfloat16>>,
    Each<Transpose<float, Float16>>, Each<Transpose<Bfloat16, float>>, Each<Transpose<Float16, float>>, Each<Dropout>,
    Each<CopyRows<float, Bfloat16>>, Each<CopyRows<float, Float16>>, Each<CopyRows<Bfloat16, float>>, Each<CopyRows<Float16, float>>,
    Each<MaxPool<float>>, Each<MaxPoolBack<float>>, Each<MaxPoolBack<Bfloat16>>, Each<MaxPoolBack<Float16>>, Each<MaxPoolBackTiles<float>>,
    Each<MaxPoolBackTiles<Bfloat16>>, Each<MaxPoolBackTiles<Float16>>, Each<AvgPool>, Each<AvgPoolBack>, Each<ImageToColumns<float>>,
    Each<ImageToColumns<Bfloat16>>, Each<ImageToColumns<Float16>>, Each<ColumnsToImage<float>>, Each<ColumnsToImage<Bfloat16>>,
    Each<ColumnsToImage<Float16>>, Each<GatherRows>, Each<LinkPlaces>, Each<AddRows>, Each<RnnStep>, Each<LstmStep>, Each<GruStep>,
    Each<RnnStepBack>, Each<LstmStepBack>, Each<GruStepBack>, Each<ShiftStates>, Each<SoftmaxRow>, Each<SoftmaxBack>,
    Each<CrossEntropyBack>, Each<SquaredErrorBack>, Each<PenaltyBack>, Each<NormApply<float>>, Each<NormApply<Bfloat16>>,
    Each<NormApply<Float16>>, Each<NormFromMoving>, Each<NormBack<float>>, Each<NormBack<Bfloat16>>, Each<NormBack<Float16>>,
    Each<JudgeLoss>, Each<SgdUpdate>, Each<MomentumUpdate>, Each<AdagradUpdate>, Each<AdadeltaUpdate>, Each<RmspropUpdate>,
    Each<AdamUpdate>, Each<TakeValues>, Each<Weigh>, Each<Clip>, Each<MeanOverDevices>, Reduce<JudgeGradients>, Reduce<SumRows<float>>,
    Reduce<SumRows<Bfloat16>>, Reduce<SumRows<Float16>>, Reduce<Moments<float>>, Reduce<Moments<Bfloat16>>, Reduce<Moments<Float16>>,
    Reduce<NormSums<float>>, Reduce<NormSums<Bfloat16>>, Reduce<NormSums<Float16>>, Reduce<LogSumExp>, Reduce<RowDot>, Reduce<BestIsLabel>,
    Reduce<Total>, Reduce<CrossEntropy>, Reduce<SquaredError>, Reduce<Penalty>>;

}  // namespace trainyard::engine::cuda
