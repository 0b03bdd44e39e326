// A rank's own copy of parameters and optimizer slots, which it updates with the means of all
// ranks' gradients.
#pragma once

#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "trainer/backend/device_optimizer.h"
#include "trainer/base/thread_pool.h"
#include "trainer/optim/optimizer_config.h"
#include "trainer/train/lone_updater.h"

namespace trainyard::engine {

// The copy is in the memory of the rank's device, where all ranks have one kind of device: these
// round alike, so that copies stay alike, bit for bit. Else the copy is on the host. There a device
// that steps run on is given the parameters as they change. Used from one thread.
class RankCopy {
 public:
  // `threads` as of LocalUpdater. `device` has the optimizer of `config`, and outlives the copy.
  // Null: steps run with the host's parameters.
  static absl::StatusOr<std::unique_ptr<RankCopy>> Create(const OptimizerConfig& config, ThreadPool* threads, DeviceOptimizer* device);

  // Where the copy is from here on. It takes its state along.
  absl::Status Place(bool on_device, ParameterSet& parameters);
  // Begins anew with this state.
  absl::Status Take(TrainingState state, ParameterSet& parameters);
  // The mean of all ranks' gradients, or next values, of `key`: until Wait it stays as it is.
  void Push(int key, const GradientView& mean) { updater_->Push(key, mean, step()); }
  // As Updater::Wait.
  absl::StatusOr<StepResult> Wait(ParameterSet& parameters);

  int64_t step() const { return updater_->global_step(); }
  // Of Refresh, State, Look and slot_bytes, until Place.
  LoneUpdater& updater() { return *updater_; }
  const LoneUpdater& updater() const { return *updater_; }

 private:
  RankCopy(const OptimizerConfig& config, ThreadPool* threads, DeviceOptimizer* device)
      : config_(config), threads_(threads), device_(device) {}
  absl::Status MakeUpdater(bool on_device);
  // What the device's steps run with, where the copy is on the host.
  absl::Status ShowDevice(const ParameterSet& parameters);

  const OptimizerConfig config_;
  ThreadPool* const threads_;
  DeviceOptimizer* const device_;
  bool on_device_ = false;
  bool has_state_ = false;
  TrainingState loaded_;  // for updater_ to take
  std::unique_ptr<LoneUpdater> updater_;
};

}  // namespace trainyard::engine
