#include "trainer/train/kvstore_updater.h"

#include <algorithm>
#include <utility>

#include "trainer/base/log.h"
#include "trainer/base/memory_for.h"
#include "trainer/base/status_macros.h"
#include "trainer/kvstore/gradient_compressor.h"

namespace trainyard::engine {

absl::StatusOr<std::unique_ptr<KvstoreUpdater>> KvstoreUpdater::Create(KvClientOptions options, std::unique_ptr<Transport> transport) {
  const absl::Duration patience = options.timeouts.peer;
  const bool pushes_next_values = options.chief || options.mode == KvMode::kSync;
  const int64_t state_bytes = BytesOf(options.specs) * static_cast<int64_t>(1 + options.slot_names.size());
  std::vector<bool> trainable;
  for (const ParameterSpec& spec : options.specs) trainable.push_back(spec.trainable);
  const int64_t compressor_bytes = GradientCompressor::BytesFor(options.specs, options.compression);
  TY_ASSIGN_OR_RETURN(std::unique_ptr<KvClient> client,
                      WithMemoryFor("gradients as bfloat16 and what rounding takes off them", compressor_bytes,
                                    [&] { return KvClient::Create(std::move(options), *transport); }));
  return std::unique_ptr<KvstoreUpdater>(
      new KvstoreUpdater(std::move(transport), std::move(client), patience, pushes_next_values, std::move(trainable), state_bytes));
}

absl::Status KvstoreUpdater::Release() {
  TY_RETURN_IF_ERROR(client_->Release());
  // The others may be gone by now: there is nobody to roll back with, and nothing that could be
  // lost.
  if (const absl::Status others = client_->AwaitOthers(patience_); !others.ok()) LogWarning("{}", std::string(others.message()));
  return absl::OkStatus();
}

absl::Status KvstoreUpdater::Look(const ParameterSet& parameters, const std::function<absl::Status(const StateView&)>& use) {
  TY_ASSIGN_OR_RETURN(const TrainingState state,
                      WithMemoryFor("the state of a checkpoint, which the servers hold", state_bytes_, [&] { return State(parameters); }));
  return use(StateView(state));
}

absl::Status KvstoreUpdater::AwaitOthers(absl::Duration deadline, ParameterSet& parameters) {
  client_->Leave();
  TY_RETURN_IF_ERROR(client_->AwaitOthers(deadline));
  return client_->PullInto(parameters);
}

}  // namespace trainyard::engine
