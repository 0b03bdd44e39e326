// An updater without peers: nobody is waited for, and nobody is told.
#pragma once

#include <string>
#include <vector>

#include "trainer/optim/updater.h"

namespace trainyard::engine {

class LoneUpdater : public Updater {
 public:
  absl::Status AwaitOthers(absl::Duration /*deadline*/, ParameterSet& parameters) override { return Refresh(parameters); }
  absl::Status End(int64_t /*step*/) override { return absl::OkStatus(); }
  void PushNothing(int /*key*/, int64_t /*step*/) override {}
  void ShowActivity() override {}
  void TellPace(WorkerPace /*pace*/) override {}
  std::vector<WorkerPace> paces() const override { return {}; }
  absl::Status AskForRollback(const std::string& /*reason*/) override { return absl::OkStatus(); }
  absl::Status Release() override { return absl::OkStatus(); }
  absl::Status AwaitRelease() override { return absl::OkStatus(); }
  void Leave() override {}
  void Done() override {}
  int64_t bytes_sent() const override { return 0; }
  int64_t bytes_received() const override { return 0; }
};

}  // namespace trainyard::engine
