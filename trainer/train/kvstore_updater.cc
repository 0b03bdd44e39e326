#include "trainer/train/kvstore_updater.h"

#include <algorithm>
#include <utility>

#include "trainer/base/status_macros.h"

namespace trainyard::engine {

absl::StatusOr<std::unique_ptr<KvstoreUpdater>> KvstoreUpdater::Create(KvClientOptions options, std::unique_ptr<Transport> transport) {
  const bool pushes_next_values = options.chief || options.mode == KvMode::kSync;
  std::vector<bool> trainable;
  for (const ParameterSpec& spec : options.specs) trainable.push_back(spec.trainable);
  TY_ASSIGN_OR_RETURN(std::unique_ptr<KvClient> client, KvClient::Create(std::move(options), *transport));
  return std::unique_ptr<KvstoreUpdater>(
      new KvstoreUpdater(std::move(transport), std::move(client), pushes_next_values, std::move(trainable)));
}

absl::Status KvstoreUpdater::AwaitOthers(absl::Duration deadline, ParameterSet& parameters) {
  client_->Leave();
  TY_RETURN_IF_ERROR(client_->AwaitOthers(deadline));
  TY_ASSIGN_OR_RETURN(const KvState state, client_->Pull(/*with_slots=*/false));
  for (int key = 0; key < parameters.size(); ++key) std::ranges::copy(state.parameters.values(key), parameters.values(key).begin());
  return absl::OkStatus();
}

}  // namespace trainyard::engine
