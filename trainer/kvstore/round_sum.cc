#include "trainer/kvstore/round_sum.h"

#include <algorithm>
#include <utility>

#include "trainer/base/check.h"

namespace trainyard::engine {

std::shared_ptr<RoundMemory> RoundMemories::Take() {
  std::unique_ptr<RoundMemory> memory;
  {
    absl::MutexLock lock(&shelf_->mutex);
    if (!shelf_->idle.empty()) {
      memory = std::move(shelf_->idle.back());
      shelf_->idle.pop_back();
    }
  }
  if (memory == nullptr) memory = std::make_unique<RoundMemory>(workers_, block_);
  return {memory.release(), [shelf = shelf_](RoundMemory* pointer) {
            std::unique_ptr<RoundMemory> returned(pointer);
            absl::MutexLock lock(&shelf->mutex);
            shelf->idle.push_back(std::move(returned));
          }};
}

RoundSum::RoundSum(std::span<const PushedGradient* const> gradients, const PartRows& part, Mean mean, int devices,
                   std::shared_ptr<RoundMemory> memory)
    : readers_(gradients.size()), memory_(std::move(memory)) {
  TY_CHECK(gradients.size() == memory_->sum.ranks());
  int with_examples = 0;
  for (size_t i = 0; i < gradients.size(); ++i) {
    if (gradients[i]->addends == 0) continue;
    readers_[i].emplace(*gradients[i], part);
    with_examples += gradients[i]->addends;
  }
  const auto all = static_cast<int>(gradients.size()) * devices;
  divisor_ = static_cast<float>(mean == Mean::kOfAll && with_examples > 0 ? all : with_examples);
}

void RoundSum::SkipTo(size_t element) {
  for (std::optional<GradientReader>& reader : readers_) {
    if (reader) reader->SkipTo(element);
  }
}

std::span<const float> RoundSum::Next(size_t count) {
  TreeSum& tree = memory_->sum;
  tree.Begin(count);
  for (std::optional<GradientReader>& reader : readers_) {
    if (reader) {
      tree.Add(reader->Next(count, tree.Scratch()));
    } else {
      tree.AddNothing();
    }
  }
  if (divisor_ == 1) return tree.Finish();
  const std::span<float> mean(memory_->mean.as<float>(), count);
  return tree.FinishInto(mean, divisor_) ? mean : std::span<const float>();
}

}  // namespace trainyard::engine
