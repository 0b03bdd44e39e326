// Training with parameter servers: a KvClient behind the Updater interface, and the transport it
// talks through.
#pragma once

#include <memory>

#include "trainer/kvstore/client.h"
#include "trainer/optim/updater.h"
#include "trainer/transport/transport.h"

namespace trainyard::engine {

class KvstoreUpdater final : public Updater {
 public:
  static absl::StatusOr<std::unique_ptr<KvstoreUpdater>> Create(KvClientOptions options, std::unique_ptr<Transport> transport);

  absl::StatusOr<TrainingStart> Start(ParameterSet& parameters) override { return client_->Start(parameters); }
  // In async mode the chief's next values are everybody's: those of other workers stay here.
  void Push(int key, const GradientView& gradient, int64_t step) override {
    if (pushes_next_values_ || trainable_[key]) client_->PushGradient(key, gradient, step);
  }
  void PushNothing(int key, int64_t step) override {
    if (pushes_next_values_ || trainable_[key]) client_->PushNothing(key, step);
  }
  absl::StatusOr<StepResult> Wait(ParameterSet& parameters) override { return client_->Wait(parameters); }
  absl::StatusOr<TrainingState> State(const ParameterSet& parameters) override { return client_->Pull(/*with_slots=*/true); }
  absl::Status Look(const ParameterSet& parameters, const std::function<absl::Status(const StateView&)>& use) override;
  absl::Status AwaitOthers(absl::Duration deadline, ParameterSet& parameters) override;
  absl::Status End(int64_t step) override { return client_->End(step); }
  void ShowActivity() override { client_->ShowActivity(); }
  void TellPace(WorkerPace pace) override { client_->TellPace(std::move(pace)); }
  std::vector<WorkerPace> paces() const override { return client_->paces(); }
  absl::Status AskForRollback(const std::string& reason) override { return client_->AskForRollback(reason); }
  absl::Status Release() override;
  absl::Status AwaitRelease() override { return client_->AwaitRelease(); }
  void Leave() override { client_->Leave(); }
  void Done() override { client_->Done(); }
  int64_t global_step() const override { return client_->global_step(); }
  int64_t planned_steps() const override { return client_->planned_steps(); }
  int64_t bytes_sent() const override { return client_->bytes_sent(); }
  int64_t bytes_received() const override { return client_->bytes_received(); }

 private:
  KvstoreUpdater(std::unique_ptr<Transport> transport, std::unique_ptr<KvClient> client, absl::Duration patience, bool pushes_next_values,
                 std::vector<bool> trainable, int64_t state_bytes)
      : transport_(std::move(transport)),
        client_(std::move(client)),
        patience_(patience),
        pushes_next_values_(pushes_next_values),
        trainable_(std::move(trainable)),
        state_bytes_(state_bytes) {}

  const std::unique_ptr<Transport> transport_;  // outlives the client
  const std::unique_ptr<KvClient> client_;
  const absl::Duration patience_;  // for the others to end
  const bool pushes_next_values_;
  const std::vector<bool> trainable_;  // by key
  const int64_t state_bytes_;          // of parameters and slots
};

}  // namespace trainyard::engine
