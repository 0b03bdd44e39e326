#include "trainer/commands/launch_command.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <memory>

#include "trainer/base/clock.h"
#include "trainer/checkpoint/old_checkpoint.h"
#include "trainer/cli/command_info.h"
#include "trainer/cli/palette.h"
#include "trainer/commands/add_options.h"
#include "trainer/job/check_inputs.h"
#include "trainer/job/check_output.h"
#include "trainer/launch/local_launcher.h"
#include "trainer/launch/new_folder.h"

namespace trainyard::engine {
namespace {

struct LaunchFlags {
  std::string file;
  std::string output;
  std::vector<std::string> overrides;
  std::string progress = "auto";
  bool open = false;
};

ProgressMode ModeOf(std::string_view word) {
  if (word == "bar") return ProgressMode::kBar;
  if (word == "plain") return ProgressMode::kPlain;
  if (word == "none") return ProgressMode::kNone;
  return TakesEscapes(STDERR_FILENO) ? ProgressMode::kBar : ProgressMode::kPlain;
}

int Launch(const LaunchFlags& flags, const RunningProgram& running) {
  const absl::StatusOr<JobConfig> job = ReadJobFile(flags.file, flags.overrides);
  if (!job.ok()) {
    PrintError(std::string(job.status().message()));
    return 1;
  }
  if (job->run_policy.suspend) {
    PrintError(flags.file +
               ": spec.runPolicy.suspend: found true, so the job is not to run: nothing was started; start it with --set "
               "spec.runPolicy.suspend=false");
    return 1;
  }
  FieldErrors errors;
  CheckInputs(job->training, errors);
  if (const absl::Status inputs = errors.ToStatus(flags.file, job->lines); !inputs.ok()) {
    PrintError(std::string(inputs.message()));
    return 1;
  }
  LaunchOptions options{.program = running.program,
                        .called_as = running.called_as,
                        .file = flags.file,
                        .overrides = flags.overrides,
                        .output = flags.output,
                        .progress = ModeOf(flags.progress),
                        .open = flags.open};
  const bool new_folder = options.output.empty();
  if (new_folder) options.output = "runs/" + job->name + "/" + absl::FormatTime("%Y%m%d-%H%M%S", RealClock().Wall(), absl::UTCTimeZone());
  absl::Status output = CheckOutput(options.output, job->training);
  if (output.ok()) output = CheckOldCheckpoint(options.output, job->training);
  if (!output.ok()) {
    PrintError(std::string(output.message()));
    return 1;
  }
  if (new_folder) {
    absl::StatusOr<std::string> made = MakeNewFolder(options.output);
    if (!made.ok()) {
      PrintError(std::string(made.status().message()));
      return 1;
    }
    options.output = *std::move(made);
  }
  const absl::StatusOr<int> exit_code = LaunchLocally(*job, options);
  if (!exit_code.ok()) {
    PrintError(std::string(exit_code.status().message()));
    return 1;
  }
  return *exit_code;
}

}  // namespace

void AddLaunchCommand(CLI::App& app, const RunningProgram& running, int& exit_code) {
  auto flags = std::make_shared<LaunchFlags>();
  CLI::App* command = app.add_subcommand("launch", "run a TrainingJob file's replicas as local processes");
  command->add_option("FILE", flags->file, "the TrainingJob (YAML or JSON)")->type_name("FILE")->required();
  command
      ->add_option("--output", flags->output,
                   "folder for report, checkpoints, summaries and logs (default: a new one below runs/); an existing one is resumed from "
                   "its newest checkpoint")
      ->type_name("DIR");
  AddSetOption(*command, flags->overrides);
  OneOf(command->add_option("--progress", flags->progress, "how progress is shown: a bar, lines, nothing; auto: a bar on a terminal"),
        {"auto", "bar", "plain", "none"})
      ->capture_default_str();
  command->add_flag("--open", flags->open, "serve the run's page on 127.0.0.1 while it trains, and show it in a browser");
  command->footer(
      "trainyard-trainer launch examples/lenet5-ps.yaml --open\n"
      "trainyard-trainer launch examples/lenet5-ps.yaml --set worker.replicas=4 --set training.epochs=3\n"
      "trainyard-trainer launch job.yaml --output out    # again after a stop: goes on from the newest checkpoint");
  command->callback([flags, running, &exit_code] { exit_code = Launch(*flags, running); });
}

}  // namespace trainyard::engine
