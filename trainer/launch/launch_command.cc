#include "trainer/launch/launch_command.h"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>

#include "absl/time/clock.h"
#include "trainer/launch/local_launcher.h"

namespace trainyard::engine {
namespace {

struct LaunchFlags {
  std::string file;
  std::string output;
  std::vector<std::string> overrides;
  ProgressMode progress = ProgressMode::kAuto;
};

int Launch(const LaunchFlags& flags, const RunningProgram& running) {
  const absl::StatusOr<JobConfig> job = ReadJobFile(flags.file, flags.overrides);
  if (!job.ok()) {
    std::fprintf(stderr, "%s\n", std::string(job.status().message()).c_str());
    return 1;
  }
  if (job->run_policy.suspend) {
    std::fprintf(stderr,
                 "%s: spec.runPolicy.suspend: found true, so the job is not to run: nothing was started; start it with --set "
                 "spec.runPolicy.suspend=false\n",
                 flags.file.c_str());
    return 1;
  }
  LaunchOptions options{
      .program = running.program, .called_as = running.called_as, .file = flags.file, .output = flags.output, .progress = flags.progress};
  if (options.output.empty())
    options.output = "runs/" + job->name + "/" + absl::FormatTime("%Y%m%d-%H%M%S", absl::Now(), absl::UTCTimeZone());
  const absl::StatusOr<JobState> state = LaunchLocally(*job, options);
  if (!state.ok()) {
    std::fprintf(stderr, "launch: %s\n", std::string(state.status().message()).c_str());
    return 1;
  }
  if (*state == JobState::kSucceeded) return 0;
  return *state == JobState::kStopped ? 130 : 1;
}

}  // namespace

void AddLaunchCommand(CLI::App& app, const RunningProgram& running, int& exit_code) {
  auto flags = std::make_shared<LaunchFlags>();
  CLI::App* command = app.add_subcommand("launch", "run a TrainingJob file's replicas as local processes");
  command->add_option("FILE", flags->file, "the TrainingJob (YAML or JSON)")->required();
  command->add_option(
      "--output", flags->output,
      "folder for report, checkpoints, summaries and logs (default: a new one below runs/); an existing one is resumed from "
      "its newest checkpoint");
  command->add_option("--set", flags->overrides, "change a field before anything is checked: path=value, as training.epochs=3")
      ->type_name("PATH=VALUE")
      ->take_all()
      ->allow_extra_args(false);
  const std::map<std::string, ProgressMode> modes = {
      {"auto", ProgressMode::kAuto}, {"bar", ProgressMode::kBar}, {"plain", ProgressMode::kPlain}, {"none", ProgressMode::kNone}};
  command->add_option("--progress", flags->progress, "auto, bar, plain or none")
      ->transform(CLI::CheckedTransformer(modes, CLI::ignore_case).description(""))
      ->type_name("MODE");
  command->callback([flags, running, &exit_code] { exit_code = Launch(*flags, running); });
}

}  // namespace trainyard::engine
