#include "trainer/train/bucket_plans.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "trainer/collectives/group_options.h"
#include "trainer/collectives/schedule.h"

namespace trainyard::engine {
namespace {

std::string BucketName(const BucketCut& cut, const std::function<std::string(int)>& name) {
  const std::string first = fmt::format("'{}'", name(cut.front().tensor));
  return cut.size() == 1 ? first : fmt::format("{} to '{}'", first, name(cut.back().tensor));
}

}  // namespace

BucketPlans::BucketPlans(std::vector<ParameterSpec> specs, std::vector<int> keys, const std::vector<int>& row_keys, size_t slots,
                         size_t bucket_bytes)
    : specs_(std::move(specs)), keys_(std::move(keys)), buckets_of_(specs_.size()) {
  const auto elements_of = [this](int key) { return static_cast<size_t>(specs_[key].shape.elements()); };
  std::vector<size_t> of_step;
  for (const int key : keys_) {
    const bool rows = std::ranges::find(row_keys, key) != row_keys.end();
    of_step.push_back(rows ? static_cast<size_t>(specs_[key].shape[0]) : elements_of(key));
  }
  step_cut_ = CutIntoBuckets(of_step, bucket_bytes);
  for (size_t bucket = 0; bucket < step_cut_.size(); ++bucket) {
    for (const BucketSegment& segment : step_cut_[bucket]) buckets_of_[keys_[segment.tensor]].push_back(bucket);
  }
  std::vector<size_t> of_state;
  for (size_t set = 0; set < 1 + slots; ++set) {
    for (int key = 0; key < static_cast<int>(specs_.size()); ++key) of_state.push_back(elements_of(key));
  }
  state_cut_ = CutIntoBuckets(of_state, bucket_bytes);
}

std::vector<std::string> BucketPlans::step_names() const {
  std::vector<std::string> names;
  for (const BucketCut& cut : step_cut_) {
    names.push_back(BucketName(cut, [this](int tensor) { return specs_[keys_[tensor]].name; }));
  }
  return names;
}

OperationPlan BucketPlans::Step(const AlgorithmChoice& choice, int rank, const RankLayout& layout, int devices) const {
  const std::vector<std::string> names = step_names();
  OperationPlan plan{.name = "all-reduce", .buckets = {}, .devices = devices};
  for (size_t bucket = 0; bucket < step_cut_.size(); ++bucket) {
    const size_t size = ElementsOf(step_cut_[bucket]);
    plan.buckets.push_back(
        {.name = names[bucket], .elements = size, .schedule = AllReduce(choice.Of(size * sizeof(float)), rank, layout, size)});
  }
  return plan;
}

OperationPlan BucketPlans::State(int rank, int ranks, int root) const {
  OperationPlan plan{.name = "broadcast of the state", .buckets = {}};
  for (const BucketCut& cut : state_cut_) {
    const size_t size = ElementsOf(cut);
    plan.buckets.push_back(
        {.name = BucketName(cut, [this](int tensor) { return specs_[static_cast<size_t>(tensor) % specs_.size()].name; }),
         .elements = size,
         .schedule = Broadcast(rank, ranks, size, root)});
  }
  return plan;
}

}  // namespace trainyard::engine
