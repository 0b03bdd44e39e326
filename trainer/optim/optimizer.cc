#include "trainer/optim/optimizer.h"

#include <array>

#include "trainer/base/check.h"

namespace trainyard::engine {
namespace {

constexpr size_t kLeastToShare = 64 << 10;  // elements that several threads share: fewer cost less than waking them

using SlotParts = std::array<std::span<float>, kMostSlots>;

}  // namespace

void ApplyGradient(const Optimizer& optimizer, const UpdateContext& context, std::span<float> param, const GradientView& gradient,
                   size_t row_elements, std::span<const std::span<float>> slots, ThreadPool* threads) {
  TY_CHECK(slots.size() <= kMostSlots);
  const bool by_rows = gradient.rows && optimizer.KeepsWhereGradientIsZero();
  const auto apply = [&](size_t begin, size_t count) {
    SlotParts parts;
    for (size_t i = 0; i < slots.size(); ++i) parts[i] = slots[i].subspan(begin, count);
    optimizer.Apply(context, param.subspan(begin, count), gradient.values.subspan(begin, count), std::span(parts).first(slots.size()));
  };
  // A thread's part: rows [begin, end) of the list, else elements.
  const auto apply_part = [&](int64_t begin, int64_t end) {
    const auto first = static_cast<size_t>(begin);
    const auto count = static_cast<size_t>(end - begin);
    if (!by_rows) return apply(first, count);
    for (const int32_t row : gradient.rows->subspan(first, count)) apply(static_cast<size_t>(row) * row_elements, row_elements);
  };
  const auto units = static_cast<int64_t>(by_rows ? gradient.rows->size() : gradient.values.size());
  const size_t elements = by_rows ? gradient.rows->size() * row_elements : gradient.values.size();
  if (threads == nullptr || elements < kLeastToShare) return apply_part(0, units);
  threads->Run(units, [&](int64_t begin, int64_t end, int /*thread*/) { apply_part(begin, end); });
}

}  // namespace trainyard::engine
