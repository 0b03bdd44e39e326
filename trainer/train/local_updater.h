// Runs the optimizer in this process: training without peers, and each rank of an all-reduce.
#pragma once

#include <functional>
#include <memory>

#include "trainer/base/thread_pool.h"
#include "trainer/optim/optimizer.h"
#include "trainer/optim/optimizer_config.h"
#include "trainer/train/lone_updater.h"

namespace trainyard::engine {

class LocalUpdater final : public LoneUpdater {
 public:
  // `load` gives the newest good checkpoint's state, or the start values. Large tensors are
  // updated by `threads`, which must rest during Wait; null: by its caller. Their number changes no
  // bit.
  static absl::StatusOr<std::unique_ptr<LocalUpdater>> Create(const OptimizerConfig& config, ThreadPool* threads,
                                                              std::function<absl::StatusOr<TrainingState>()> load);

  absl::StatusOr<TrainingStart> Start(ParameterSet& parameters) override;
  void Push(int key, const GradientView& gradient, int64_t step) override;
  absl::StatusOr<StepResult> Wait(ParameterSet& parameters) override;
  absl::StatusOr<TrainingState> State(const ParameterSet& parameters) override;
  absl::Status Look(const ParameterSet& parameters, const std::function<absl::Status(const StateView&)>& use) override {
    return use(StateView(parameters, slots_, step_));
  }
  int64_t global_step() const override { return step_; }
  int64_t slot_bytes() const override;

 private:
  struct Pushed {
    int key;
    GradientView gradient;
  };

  LocalUpdater(OptimizerConfig config, std::unique_ptr<Optimizer> optimizer, ThreadPool* threads,
               std::function<absl::StatusOr<TrainingState>()> load);
  void Apply(const UpdateContext& context, const Pushed& push, ParameterSet& parameters);

  const OptimizerConfig config_;
  const std::unique_ptr<Optimizer> optimizer_;
  const std::function<absl::StatusOr<TrainingState>()> load_;
  std::vector<ParameterSet> slots_;
  int64_t step_ = 0;
  ThreadPool* const threads_;
  std::vector<Pushed> pushed_;  // of the step in hand; keeps its memory
};

}  // namespace trainyard::engine
