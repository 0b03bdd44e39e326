// The sum over the devices of a worker: the lower of the two levels of sums (docs/collectives.md).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "trainer/base/thread_pool.h"
#include "trainer/collectives/tree_order.h"
#include "trainer/optim/updater.h"
#include "trainer/tensor/parameter_set.h"

namespace trainyard::engine {

// What becomes of the sum before it is pushed.
enum class DeviceMean : uint8_t {
  kNone,       // the updater divides: others add to the sum
  kOfDevices,  // gradients are divided by the number of devices, next values by the number of those that had examples
};

// A gradient (or next value) is summed in tree order as soon as every device with examples has it,
// and goes to the updater then, while backward goes on. The sum lies where the first of those
// devices has its gradient. With one device nothing is added or copied.
//
// Where the updater sends nothing, an early sum gains nothing: the thread that is last anyway would
// add, while the others go on. There all sums are made at the end, by all threads together.
//
// Each device announces its keys in one order, which is the same on all of them: sums leave in that
// order. Ready is for any thread, one for each device. All else is the step loop's.
class DeviceSum {
 public:
  // `gradients`: by device. `at_end`: adds in End, null: sums are made early. They and `updater`
  // must outlive it.
  DeviceSum(Updater& updater, std::vector<ParameterSet*> gradients, DeviceMean mean, ThreadPool* at_end = nullptr);

  // `with_examples`: by device.
  void Begin(int64_t step, std::vector<bool> with_examples);
  // A device with examples has its final gradient (or next value) of `key`.
  void Ready(int key);
  // No device announces more. Sums that are due are made and pushed; the updater hears of the keys
  // that none has announced. The step loop's, which may use `at_end`.
  void End();

 private:
  void Push(int key) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Sum(int key) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Elements [begin, end) of the tensor. Threads with trees and ranges of their own may add at
  // once.
  void SumRange(TreeSum& tree, int key, size_t begin, size_t end) const;
  // The rows of the sum: those of all devices with examples. False: any row may differ from zero.
  bool UniteRows(int key) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  Updater& updater_;
  const std::vector<ParameterSet*> gradients_;
  const DeviceMean mean_;
  ThreadPool* const at_end_;
  absl::Mutex mutex_;                                   // one sum at a time
  std::vector<TreeSum> trees_ ABSL_GUARDED_BY(mutex_);  // of each thread that adds
  std::vector<int> due_ ABSL_GUARDED_BY(mutex_);        // at the end, in their order
  std::vector<int32_t> rows_ ABSL_GUARDED_BY(mutex_);   // of one sum; keeps its memory
  // Of the step in hand; constant between Begin and End.
  int64_t step_ = 0;
  std::vector<bool> with_examples_;      // by device
  size_t first_ = 0;                     // device with examples
  int addends_ = 0;                      // devices with examples
  std::vector<std::atomic<int>> ready_;  // devices, by key
};

}  // namespace trainyard::engine
