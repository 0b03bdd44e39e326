#include "trainer/train/device_sum.h"

#include <algorithm>
#include <utility>

#include "trainer/base/check.h"

namespace trainyard::engine {
namespace {

constexpr size_t kSumBlock = 4096;                // floats: the partial sums of a block fit into a second-level cache
constexpr size_t kLeastToAddTogether = 64 << 10;  // that several threads share: fewer cost less than waking them

}  // namespace

DeviceSum::DeviceSum(Updater& updater, std::vector<ParameterSet*> gradients, DeviceMean mean, ThreadPool* at_end)
    : updater_(updater),
      gradients_(std::move(gradients)),
      mean_(mean),
      at_end_(at_end),
      ready_(static_cast<size_t>(gradients_[0]->size())) {
  const int threads = at_end == nullptr ? 1 : at_end->threads();
  for (int thread = 0; thread < threads; ++thread) trees_.emplace_back(static_cast<int>(gradients_.size()), kSumBlock);
}

void DeviceSum::Begin(int64_t step, std::vector<bool> with_examples) {
  TY_CHECK(with_examples.size() == gradients_.size());
  step_ = step;
  with_examples_ = std::move(with_examples);
  addends_ = static_cast<int>(std::ranges::count(with_examples_, true));
  first_ = static_cast<size_t>(std::ranges::find(with_examples_, true) - with_examples_.begin());
  for (std::atomic<int>& devices : ready_) devices = 0;
  absl::MutexLock lock(&mutex_);
  due_.clear();
}

void DeviceSum::Ready(int key) {
  if (ready_[key].fetch_add(1, std::memory_order_acq_rel) + 1 < addends_) return;
  absl::MutexLock lock(&mutex_);
  if (at_end_ != nullptr) return due_.push_back(key);
  Push(key);
}

void DeviceSum::End() {
  {
    absl::MutexLock lock(&mutex_);
    for (const int key : due_) Push(key);
  }
  for (int key = 0; key < static_cast<int>(ready_.size()); ++key) {
    if (ready_[key] == 0) updater_.PushNothing(key, step_);
  }
}

void DeviceSum::Push(int key) {
  if (gradients_.size() > 1) Sum(key);
  GradientView sum = std::as_const(*gradients_[first_]).gradient(key);
  sum.addends = mean_ == DeviceMean::kNone ? addends_ : 1;
  updater_.Push(key, sum, step_);
}

void DeviceSum::Sum(int key) {
  const ParameterSet& first = *gradients_[first_];
  const bool by_rows = UniteRows(key);
  const std::span<const int32_t> rows = first.touched_rows(key).ids();
  const auto row_elements = static_cast<size_t>(first.spec(key).row_elements());
  const size_t elements = by_rows ? rows.size() * row_elements : first.values(key).size();
  TreeSum* const trees = trees_.data();
  // A thread's part: rows [begin, end) of the list, else elements.
  const auto sum = [&](int64_t begin, int64_t end, int thread) {
    if (!by_rows) return SumRange(trees[thread], key, static_cast<size_t>(begin), static_cast<size_t>(end));
    for (const int32_t row : rows.subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin))) {
      SumRange(trees[thread], key, static_cast<size_t>(row) * row_elements, (static_cast<size_t>(row) + 1) * row_elements);
    }
  };
  const auto units = static_cast<int64_t>(by_rows ? rows.size() : elements);
  if (at_end_ == nullptr || elements < kLeastToAddTogether) return sum(0, units, 0);
  at_end_->Run(units, [&](int64_t begin, int64_t end, int thread) { sum(begin, end, thread); });
}

bool DeviceSum::UniteRows(int key) {
  rows_.clear();
  bool all = false;
  for (size_t device = 0; device < gradients_.size(); ++device) {
    if (!with_examples_[device]) continue;
    const TouchedRows& rows = std::as_const(*gradients_[device]).touched_rows(key);
    all = all || rows.all();
    rows_.insert(rows_.end(), rows.ids().begin(), rows.ids().end());
  }
  TouchedRows& rows = gradients_[first_]->touched_rows(key);
  if (all) {
    rows.SetAll();
    return false;
  }
  rows.Reserve(rows_.size());
  rows.Touch(rows_);
  return true;
}

void DeviceSum::SumRange(TreeSum& tree, int key, size_t begin, size_t end) const {
  const bool trainable = gradients_[0]->spec(key).trainable;
  const auto devices = static_cast<int>(gradients_.size());
  const auto divisor = static_cast<float>(mean_ == DeviceMean::kNone ? 1 : trainable ? devices : addends_);
  for (size_t done = begin; done < end; done += kSumBlock) {
    const size_t count = std::min(kSumBlock, end - done);
    tree.Begin(count);
    for (size_t device = 0; device < gradients_.size(); ++device) {
      if (with_examples_[device]) {
        tree.Add(std::as_const(*gradients_[device]).values(key).subspan(done, count));
      } else {
        tree.AddNothing();
      }
    }
    TY_CHECK(tree.FinishInto(gradients_[first_]->values(key).subspan(done, count), divisor));
  }
}

}  // namespace trainyard::engine
