// trainyard-trainer: the engine's one program. Each subcommand lives in a file of its own, named
// for it.
#include <fmt/format.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <climits>
#include <csignal>
#include <string>

#include "absl/synchronization/mutex.h"
#include "trainer/base/early_stop.h"
#include "trainer/base/last_resort.h"
#include "trainer/cli/run_command_line.h"
#include "trainer/commands/bench_command.h"
#include "trainer/commands/compare_command.h"
#include "trainer/commands/data_command.h"
#include "trainer/commands/evaluate_command.h"
#include "trainer/commands/export_command.h"
#include "trainer/commands/generate_command.h"
#include "trainer/commands/import_command.h"
#include "trainer/commands/init_command.h"
#include "trainer/commands/inspect_command.h"
#include "trainer/commands/launch_command.h"
#include "trainer/commands/predict_command.h"
#include "trainer/commands/profile_command.h"
#include "trainer/commands/report_command.h"
#include "trainer/commands/serve_command.h"
#include "trainer/commands/train_command.h"
#include "trainer/job/exit_code.h"
#include "trainyard_version.h"

namespace {

std::string OwnPath() {
  char path[PATH_MAX];
  const ssize_t size = readlink("/proc/self/exe", path, sizeof(path));
  return size > 0 ? std::string(path, static_cast<size_t>(size)) : "trainyard-trainer";
}

// How the user called this program, for messages that tell what to type next.
std::string CalledAs(std::string_view argv0) {
  return argv0.find('/') != std::string_view::npos ? std::string(argv0) : "trainyard-trainer";
}

}  // namespace

int main(int argc, char** argv) {
  if (getpid() == 1) trainyard::engine::EndOnSigterm(trainyard::engine::kStoppedExitCode);
  std::signal(SIGXFSZ, SIG_IGN);  // a write beyond `ulimit -f` fails, as on a full disk
  trainyard::engine::InstallLastResort(trainyard::engine::kExhaustedExitCode);
  // Debian's abseil is built without NDEBUG: it would look for cycles at every lock, gRPC's too.
  // The tests leave that on.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  spdlog::set_default_logger(std::make_shared<spdlog::logger>("", std::make_shared<spdlog::sinks::stderr_sink_mt>()));
  spdlog::set_pattern("%Y-%m-%dT%H:%M:%S.%e %L %v");
  spdlog::flush_on(spdlog::level::info);

  CLI::App app("train neural networks from one TrainingJob file: alone, over parameter servers or by all-reduce", "trainyard-trainer");
  app.require_subcommand(1);
  app.set_version_flag("--version", fmt::format("trainyard-trainer {} ({})", TRAINYARD_VERSION, TRAINYARD_COMMIT), "print the version");
  app.footer(
      "trainyard-trainer launch examples/lenet5-ps.yaml        # LeNet-5: one server, two workers\n"
      "trainyard-trainer launch JOB.yaml --set training.epochs=3\n"
      "trainyard-trainer inspect JOB.yaml                      # shapes, parameters, memory");
  trainyard::engine::SetUpHelp(app);
  int exit_code = 0;
  trainyard::engine::AddInitCommand(app, exit_code);
  trainyard::engine::AddLaunchCommand(app, {.program = OwnPath(), .called_as = CalledAs(argv[0])}, exit_code);
  trainyard::engine::AddTrainCommand(app, exit_code);
  trainyard::engine::AddInspectCommand(app, exit_code);
  trainyard::engine::AddDataCommand(app, exit_code);
  trainyard::engine::AddEvaluateCommand(app, exit_code);
  trainyard::engine::AddPredictCommand(app, exit_code);
  trainyard::engine::AddServeCommand(app, exit_code);
  trainyard::engine::AddExportCommand(app, exit_code);
  trainyard::engine::AddImportCommand(app, exit_code);
  trainyard::engine::AddGenerateCommand(app, exit_code);
  trainyard::engine::AddProfileCommand(app, exit_code);
  trainyard::engine::AddReportCommand(app, exit_code);
  trainyard::engine::AddCompareCommand(app, exit_code);
  trainyard::engine::AddBenchCommand(app, exit_code);
  trainyard::engine::AddShellCommands(app, TRAINYARD_VERSION);
  return trainyard::engine::RunCommandLine(app, argc, argv, exit_code);
}
