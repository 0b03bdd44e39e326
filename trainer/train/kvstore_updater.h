// Training with parameter servers: a KvClient behind the Updater interface, and the transport it talks through.
#pragma once

#include <memory>

#include "trainer/train/updater.h"
#include "trainer/transport/transport.h"

namespace trainyard::engine {

class KvstoreUpdater final : public Updater {
 public:
  static absl::StatusOr<std::unique_ptr<KvstoreUpdater>> Create(KvClientOptions options, std::unique_ptr<Transport> transport);

  absl::StatusOr<KvStart> Start(ParameterSet& parameters) override { return client_->Start(parameters); }
  // In async mode the chief's next values are everybody's: those of other workers stay here.
  void Push(int key, const GradientView& gradient, int64_t step) override {
    if (pushes_next_values_ || trainable_[key]) client_->PushGradient(key, gradient, step);
  }
  absl::StatusOr<KvStepResult> Wait(ParameterSet& parameters) override { return client_->Wait(parameters); }
  absl::StatusOr<KvState> State(const ParameterSet& parameters) override { return client_->Pull(/*with_slots=*/true); }
  absl::Status AwaitOthers(absl::Duration deadline, ParameterSet& parameters) override;
  absl::Status End(int64_t step) override { return client_->End(step); }
  void ShowActivity() override { client_->ShowActivity(); }
  void Leave() override { client_->Leave(); }
  void Done() override { client_->Done(); }
  int64_t global_step() const override { return client_->global_step(); }
  int64_t bytes_sent() const override { return client_->bytes_sent(); }
  int64_t bytes_received() const override { return client_->bytes_received(); }

 private:
  KvstoreUpdater(std::unique_ptr<Transport> transport, std::unique_ptr<KvClient> client, bool pushes_next_values,
                 std::vector<bool> trainable)
      : transport_(std::move(transport)),
        client_(std::move(client)),
        pushes_next_values_(pushes_next_values),
        trainable_(std::move(trainable)) {}

  const std::unique_ptr<Transport> transport_;  // outlives the client
  const std::unique_ptr<KvClient> client_;
  const bool pushes_next_values_;
  const std::vector<bool> trainable_;  // by key
};

}  // namespace trainyard::engine
