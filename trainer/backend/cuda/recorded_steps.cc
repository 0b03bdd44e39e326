#include "trainer/backend/cuda/recorded_steps.h"

#include <cstring>

#include "trainer/base/check.h"
#include "trainer/base/log.h"
#include "trainer/base/status_macros.h"
#include "trainer/tensor/buffer.h"

namespace trainyard::engine::cuda {
namespace {

size_t BytesOf(const DeviceResult& result) { return static_cast<size_t>(result.spec.shape.elements()) * SizeOf(result.spec.dtype); }

}  // namespace

absl::StatusOr<std::unique_ptr<RecordedSteps>> RecordedSteps::Create(Device& device, Health& health, std::vector<DeviceResult> results) {
  std::unique_ptr<RecordedSteps> steps(new RecordedSteps(device, health, std::move(results)));
  size_t bytes = 0;
  for (const DeviceResult& result : steps->results_) {
    steps->offsets_.push_back(bytes);
    bytes += Aligned(BytesOf(result));
  }
  if (bytes > 0) {
    TY_ASSIGN_OR_RETURN(steps->staging_, device.AllocatePinned("the results of a step", bytes));
  }
  return steps;
}

void RecordedSteps::Run(const StepContext& step, absl::FunctionRef<void()> start) {
  Kind& kind = kinds_[step.training ? 1 : 0];
  if (kind.has_run && !kind.refused && kind.recording == nullptr) Record(kind, start);
  if (kind.recording != nullptr) {
    health_.Try("the recorded step", [&] { return kind.recording->Launch(); });
  } else {
    start();
    health_.Try("the results of a step", [&] { return device_.JoinDownloads(); });
  }
  kind.has_run = true;
  waits_ = true;
}

// A step that cannot be recorded runs as it comes; a device that has failed shows it then.
void RecordedSteps::Record(Kind& kind, absl::FunctionRef<void()> start) {
  if (!health_.well()) return;
  absl::StatusOr<std::unique_ptr<Recording>> recording = nullptr;
  if (const absl::Status begun = device_.BeginRecording(); begun.ok()) {
    start();
    health_.Try("the results of a step", [&] { return device_.JoinDownloads(); });
    recording = device_.EndRecording();
  } else {
    recording = begun;
  }
  if (const absl::Status failure = health_.Forget(); !failure.ok()) recording = failure;
  if (recording.ok()) {
    kind.recording = *std::move(recording);
  } else {
    kind.refused = true;
    LogWarning("steps are not recorded, so each kernel is started by itself: {}", recording.status().ToString());
  }
}

void RecordedSteps::StartDownload(int result) {
  health_.Try("download", [&] {
    return device_.StartDownload(results_[result].value, BytesOf(results_[result]), staging_->data() + offsets_[result]);
  });
}

void RecordedSteps::FinishDownload(int result, const Tensor& host) {
  TY_CHECK(host.bytes() == BytesOf(results_[result]));
  if (waits_) health_.Try("the end of a step", [&] { return device_.Wait(); });
  waits_ = false;
  if (health_.well()) std::memcpy(host.data, staging_->data() + offsets_[result], host.bytes());
}

}  // namespace trainyard::engine::cuda
