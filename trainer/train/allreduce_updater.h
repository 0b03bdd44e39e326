// Training without servers: all ranks add their gradients (trainer/collectives), and each applies
// the optimizer to its own copy of the parameters (rank_copy.h). So the copies stay alike, bit for
// bit.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "trainer/collectives/measure_network.h"
#include "trainer/collectives/rank_group.h"
#include "trainer/optim/optimizer_config.h"
#include "trainer/optim/updater.h"
#include "trainer/report/replica_report.h"
#include "trainer/train/bucket_plans.h"
#include "trainer/train/rank_copy.h"
#include "trainer/train/row_sums.h"
#include "trainer/train/sharded_slots.h"
#include "trainer/transport/transport.h"

namespace trainyard::engine {

struct AllReduceUpdaterOptions {
  RankGroupOptions group;  // agreement and fingerprint are completed
  OptimizerConfig optimizer;
  ThreadPool* threads = nullptr;      // that run it, and rest during Wait; null: the caller of Wait
  DeviceOptimizer* device = nullptr;  // of the kind group.device_kind, that keeps this rank's copy; null: the host does
  int devices = 1;                    // of each rank: a push is the sum over those that had examples
  bool shard_optimizer = false;       // each rank keeps the slots of the elements that it owns, and updates those; without `device`
  std::vector<ParameterSpec> specs;
  std::shared_ptr<LendableMemory> lendable = nullptr;  // the transport's, for the sums; may be null
  std::vector<int> keys;                               // that a step leaves a gradient or a next value for, the same on all ranks
  // Of these those whose gradients may list their rows, so that only touched rows travel; the same
  // on all ranks. With a sharded optimizer all rows do.
  std::vector<int> row_keys;
  size_t bucket_bytes = kBucketBytes;  // or less; the same on all ranks
  // Of a training whose input goes on there, unless rank 0 ends it before.
  std::function<int64_t(const InputOrigin&)> end_step;
  // Rank 0: the newest good checkpoint's state, or the start values. `again`: the training was
  // under way already, so all ranks must be able to go on from that state with the same bits.
  std::function<absl::StatusOr<TrainingState>(bool again)> load;
  // Other ranks: room for a state.
  std::function<absl::StatusOr<TrainingState>()> empty_state;
  // Rank 0: there is nothing to train from this state on, though `end_step` may be further.
  std::function<absl::StatusOr<bool>(int64_t step)> finished;
  // Rank 0: ranks carry state of their own from step to step (recurrent layers), which is written
  // beside checkpoints only.
  std::function<absl::StatusOr<bool>()> carries_state;
  // How buckets are added from here on; told each time a group has formed. May be null.
  std::function<void(const AllReduceRecord&)> on_algorithms;
};

// Where a group forms, one rank gives all others the state that the training goes on from: the rank
// that has the furthest one in memory, or rank 0, whose new process has that of the newest
// checkpoint. So a lost rank costs at most the step under way, rank 0 too.
//
// With a sharded optimizer no rank has all slots, so every lost rank costs the steps since the
// checkpoint. For a checkpoint rank 0 asks all ranks for their slots.
class AllReduceUpdater final : public Updater {
 public:
  static absl::StatusOr<std::unique_ptr<AllReduceUpdater>> Create(AllReduceUpdaterOptions options, std::unique_ptr<Transport> transport);

  // Of a step's buckets: "'dense1/kernel' to 'conv2/bias'".
  std::vector<std::string> bucket_names() const { return plans_->step_names(); }

  absl::StatusOr<TrainingStart> Start(ParameterSet& parameters) override;
  void Push(int key, const GradientView& gradient, int64_t step) override;
  void PushNothing(int key, int64_t step) override;
  absl::StatusOr<StepResult> Wait(ParameterSet& parameters) override;
  absl::Status Refresh(ParameterSet& parameters) override { return copy_->updater().Refresh(parameters); }
  absl::StatusOr<TrainingState> State(const ParameterSet& parameters) override;
  absl::Status Look(const ParameterSet& parameters, const std::function<absl::Status(const StateView&)>& use) override;
  absl::Status AwaitOthers(absl::Duration /*deadline*/, ParameterSet& /*parameters*/) override { return absl::OkStatus(); }
  absl::Status End(int64_t step) override;
  void ShowActivity() override { group_->ShowActivity(); }
  void TellPace(WorkerPace pace) override { group_->TellPace(std::move(pace)); }
  std::vector<WorkerPace> paces() const override { return group_->paces(); }
  absl::Status AskForRollback(const std::string& reason) override;
  absl::Status Release() override;
  absl::Status AwaitRelease() override;
  void Leave() override {}
  void ServeOthers() override;
  int64_t slot_bytes() const override { return sharded_ ? sharded_->bytes() : copy_->updater().slot_bytes(); }
  void Done() override { group_->Done(); }
  int64_t global_step() const override { return copy_->step(); }
  int64_t bytes_sent() const override { return group_->traffic().bytes_sent; }
  int64_t bytes_received() const override { return group_->traffic().bytes_received; }

 private:
  AllReduceUpdater(AllReduceUpdaterOptions options, std::unique_ptr<Transport> transport);
  bool first() const { return options_.group.rank == 0; }
  absl::Status Connect();
  // Where a group has formed: all ranks put their copies where these stay alike, and take the
  // algorithms that are cheaper on their network.
  absl::Status FollowGroup(ParameterSet& parameters);
  absl::Status ChooseAlgorithms();
  void MakeStepOperation();

  absl::StatusOr<TrainingStart> StartFirst(ParameterSet& parameters);
  absl::StatusOr<TrainingStart> StartOther(ParameterSet& parameters);
  // Rank 0: a lost rank has taken its slots with it. So the state in memory is not whole, not even
  // where its step is the last.
  bool LacksSlots() const;
  // Rank 0: the ranks cannot go on from a state in memory, so it takes an older one.
  absl::StatusOr<bool> MustLoad(const Gathered& gathered) const;
  // Rank 0: from which state the training goes on, and which rank gives it.
  absl::StatusOr<Formed> ChooseState(const Gathered& gathered, ParameterSet& parameters);
  absl::StatusOr<TrainingState> EmptyState();
  // All ranks: gives that state, or takes it.
  absl::Status ShareState(const Formed& formed, ParameterSet& parameters);
  // Takes a loaded state for its own.
  absl::Status Take(TrainingState state, ParameterSet& parameters);
  // The group's first operation behind the measurements. `give` (the root) or `take` is null.
  absl::Status Broadcast(const Formed& formed, const StateView* give, TrainingState* take);
  void BeginStep(int64_t step);
  // This rank has all it will have of a key.
  void Count(int key);
  void Contribute(size_t bucket);
  // Waits for the sums of the step, rows included.
  absl::StatusOr<Waited> AwaitSums(int64_t step);
  absl::StatusOr<Waited> AwaitAll(int64_t step);
  // Some rank had a gradient of the key.
  bool Learned(int key) const;
  // The new values of the step that is done: here, or from the ranks that own them.
  absl::StatusOr<StepResult> Update(ParameterSet& parameters);
  // Before this rank ends: the others have read what it has summed.
  absl::Status AwaitReaders();
  // Where no step is left, only rank 0 is needed any more.
  absl::Status FinishAtEnd();
  // Rank 0: the training ends behind this state, so other ranks will not be asked for it any more.
  absl::Status KeepState();

  AllReduceUpdaterOptions options_;
  const std::unique_ptr<Transport> transport_;  // outlives the group
  AlgorithmChoice choice_;
  RankLayout layout_;
  std::unique_ptr<BucketPlans> plans_;
  ParameterSet sums_;  // then means, of the step under way
  OperationPlan step_plan_;
  std::unique_ptr<RankCopy> copy_;
  std::unique_ptr<ShardedSlots> sharded_;  // null: copy_ has all slots
  ParameterSet* parameters_ = nullptr;     // of the step loop
  std::unique_ptr<RowSums> rows_;
  std::unique_ptr<Operation> step_operation_;
  std::unique_ptr<RankGroup> group_;  // whose threads may be at an operation

  bool has_state_ = false;  // copy_ has one
  InputOrigin origin_;      // of that state
  int64_t end_step_ = 0;    // that follows from it
  bool has_trained_ = false;
  std::string because_;           // why the last group ended
  bool from_checkpoint_ = false;  // this rank has asked for it
  int64_t reached_ = -1;          // the furthest step of any rank, as rank 0 knows it
  // The step under way.
  int64_t begun_ = -1;
  std::vector<GradientView> pushed_;  // by key
  std::vector<size_t> missing_;       // keys, by bucket
  int addends_ = 0;                   // devices of this rank that had examples
};

}  // namespace trainyard::engine
