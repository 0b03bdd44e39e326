#include "trainer/optim/optimizer.h"

#include <array>

#include "trainer/base/check.h"

namespace trainyard::engine {

void ApplyGradient(const Optimizer& optimizer, const UpdateContext& context, std::span<float> param, const GradientView& gradient,
                   size_t row_elements, std::span<const std::span<float>> slots) {
  if (!gradient.rows || !optimizer.KeepsWhereGradientIsZero()) {
    optimizer.Apply(context, param, gradient.values, slots);
    return;
  }
  TY_CHECK(slots.size() <= kMostSlots);
  std::array<std::span<float>, kMostSlots> row_slots;
  for (const int32_t row : *gradient.rows) {
    const size_t begin = static_cast<size_t>(row) * row_elements;
    for (size_t i = 0; i < slots.size(); ++i) row_slots[i] = slots[i].subspan(begin, row_elements);
    optimizer.Apply(context, param.subspan(begin, row_elements), gradient.values.subspan(begin, row_elements),
                    std::span(row_slots).first(slots.size()));
  }
}

}  // namespace trainyard::engine
