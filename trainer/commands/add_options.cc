#include "trainer/commands/add_options.h"

#include "trainer/cli/command_info.h"
#include "trainer/devices/device_request.h"

namespace trainyard::engine {
namespace {

// "cuda:1"
bool IsGpus(const std::string& text) { return ParseDeviceRequest(text).ok(); }

}  // namespace

void AddModelOptions(CLI::App& command, TrainedModelOptions& model, const std::string& job) {
  command.add_option("CHECKPOINT", model.path, "a run's output folder, its folder of checkpoints, or one checkpoint")
      ->type_name("DIR")
      ->required();
  command.add_flag("--best", model.best, "the run's best checkpoint in place of the newest");
  command.add_option("--job", model.job, job)->type_name("FILE");
}

void AddSetOption(CLI::App& command, std::vector<std::string>& overrides) {
  command.add_option("--set", overrides, "change a field of the job before anything is checked: path=value, as training.epochs=3")
      ->type_name("PATH=VALUE")
      ->take_all()
      ->allow_extra_args(false);
}

void AddBackendOption(CLI::App& command, std::string& backend) {
  const bool of_job = backend.empty();
  CLI::Option* const option = command.add_option(
      "--backend", backend,
      of_job ? "where to compute, in place of the job's resources.devices; cuda:1 is that GPU; reference is slow, for comparison"
             : "where to compute: auto takes a GPU if there is one, cuda:1 that one; reference is slow, for comparison");
  OneOf(option, {"auto", "cpu", "cuda", "reference"}, IsGpus);
  if (!of_job) option->capture_default_str();
}

}  // namespace trainyard::engine
