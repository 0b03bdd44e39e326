#include "trainer/train/device_sum.h"

#include <algorithm>
#include <utility>

#include "trainer/base/check.h"

namespace trainyard::engine {
namespace {

constexpr size_t kSumBlock = 4096;  // floats: the partial sums of a block fit into a second-level cache

}  // namespace

DeviceSum::DeviceSum(Updater& updater, std::vector<ParameterSet*> gradients, DeviceMean mean)
    : updater_(updater),
      gradients_(std::move(gradients)),
      mean_(mean),
      tree_(static_cast<int>(gradients_.size()), kSumBlock),
      ready_(static_cast<size_t>(gradients_[0]->size())) {}

void DeviceSum::Begin(int64_t step, std::vector<bool> with_examples) {
  TY_CHECK(with_examples.size() == gradients_.size());
  step_ = step;
  with_examples_ = std::move(with_examples);
  addends_ = static_cast<int>(std::ranges::count(with_examples_, true));
  first_ = static_cast<size_t>(std::ranges::find(with_examples_, true) - with_examples_.begin());
  for (std::atomic<int>& devices : ready_) devices = 0;
}

void DeviceSum::Ready(int key) {
  if (ready_[key].fetch_add(1, std::memory_order_acq_rel) + 1 < addends_) return;
  absl::MutexLock lock(&mutex_);
  Push(key);
}

void DeviceSum::End() {
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
  if (!UniteRows(key)) return SumRange(key, 0, first.values(key).size());
  const auto row_elements = static_cast<size_t>(first.spec(key).row_elements());
  for (const int32_t row : first.touched_rows(key).ids()) {
    SumRange(key, static_cast<size_t>(row) * row_elements, (static_cast<size_t>(row) + 1) * row_elements);
  }
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

void DeviceSum::SumRange(int key, size_t begin, size_t end) {
  const bool trainable = gradients_[0]->spec(key).trainable;
  const auto devices = static_cast<int>(gradients_.size());
  const auto divisor = static_cast<float>(mean_ == DeviceMean::kNone ? 1 : trainable ? devices : addends_);
  for (size_t done = begin; done < end; done += kSumBlock) {
    const size_t count = std::min(kSumBlock, end - done);
    tree_.Begin(count);
    for (size_t device = 0; device < gradients_.size(); ++device) {
      if (with_examples_[device]) {
        tree_.Add(std::as_const(*gradients_[device]).values(key).subspan(done, count));
      } else {
        tree_.AddNothing();
      }
    }
    TY_CHECK(tree_.FinishInto(gradients_[first_]->values(key).subspan(done, count), divisor));
  }
}

}  // namespace trainyard::engine
