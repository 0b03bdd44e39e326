#include "trainer/train/rank_copy.h"

#include <utility>

#include "trainer/base/check.h"
#include "trainer/base/log.h"
#include "trainer/base/status_macros.h"
#include "trainer/train/device_optimizer_updater.h"
#include "trainer/train/local_updater.h"

namespace trainyard::engine {

absl::StatusOr<std::unique_ptr<RankCopy>> RankCopy::Create(const OptimizerConfig& config, ThreadPool* threads, DeviceOptimizer* device) {
  std::unique_ptr<RankCopy> copy(new RankCopy(config, threads, device));
  TY_RETURN_IF_ERROR(copy->MakeUpdater(/*on_device=*/device != nullptr));
  return copy;
}

absl::Status RankCopy::MakeUpdater(bool on_device) {
  TY_CHECK(!on_device || device_ != nullptr);
  const auto load = [this]() -> absl::StatusOr<TrainingState> { return std::move(loaded_); };
  on_device_ = on_device;
  if (on_device) {
    updater_ = std::make_unique<DeviceOptimizerUpdater>(*device_, config_, load);
    return absl::OkStatus();
  }
  TY_ASSIGN_OR_RETURN(updater_, LocalUpdater::Create(config_, threads_, load));
  return absl::OkStatus();
}

absl::Status RankCopy::Place(bool on_device, ParameterSet& parameters) {
  if (device_ != nullptr && !on_device) LogInfo("the optimizer runs on the host, since ranks have several kinds of devices");
  if (on_device == on_device_) return absl::OkStatus();
  TrainingState state;
  if (has_state_) {
    TY_ASSIGN_OR_RETURN(state, updater_->State(parameters));
  }
  TY_RETURN_IF_ERROR(MakeUpdater(on_device));
  return has_state_ ? Take(std::move(state), parameters) : absl::OkStatus();
}

absl::Status RankCopy::Take(TrainingState state, ParameterSet& parameters) {
  loaded_ = std::move(state);
  has_state_ = true;
  TY_RETURN_IF_ERROR(updater_->Start(parameters).status());
  return ShowDevice(parameters);
}

absl::StatusOr<StepResult> RankCopy::Wait(ParameterSet& parameters) {
  TY_ASSIGN_OR_RETURN(const StepResult result, updater_->Wait(parameters));
  TY_RETURN_IF_ERROR(ShowDevice(parameters));
  return result;
}

absl::Status RankCopy::ShowDevice(const ParameterSet& parameters) {
  return device_ == nullptr || on_device_ ? absl::OkStatus() : device_->Load(parameters, {});
}

}  // namespace trainyard::engine
