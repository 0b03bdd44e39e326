#include "trainer/commands/init_command.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>

#include "trainer/base/file.h"
#include "trainer/base/owned_fd.h"
#include "trainer/base/status_macros.h"
#include "trainer/cli/command_info.h"
#include "trainer/commands/found_job.h"
#include "trainer/commands/print_text.h"
#include "trainer/launch/shell_word.h"

namespace trainyard::engine {
namespace {

struct InitFlags {
  std::string path;
  std::string label;
  std::string output = "job.yaml";
};

absl::Status IsThere(const std::string& path) {
  return absl::AlreadyExistsError(fmt::format("{} is there already; name another file by --output", path));
}

// Makes an empty file. Of several processes that do so at once, one has made it.
absl::Status Reserve(const std::string& path) {
  const OwnedFd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
  if (file.get() >= 0) return absl::OkStatus();
  return errno == EEXIST ? IsThere(path) : FileError(errno, "create", path);
}

absl::StatusOr<std::string> Init(const InitFlags& flags) {
  std::error_code error;
  if (std::filesystem::exists(flags.output, error)) return IsThere(flags.output);
  TY_ASSIGN_OR_RETURN(const FoundJob job, FindJob(flags.path, flags.label));
  TY_RETURN_IF_ERROR(Reserve(flags.output));
  if (const absl::Status written = WriteFileDurably(flags.output, job.text); !written.ok()) {
    std::filesystem::remove(flags.output, error);  // else the next try finds it there
    return written;
  }
  std::string text = fmt::format("{}: {}\n", flags.output, job.data.summary);
  for (const std::string& note : job.data.notes) text += fmt::format("note: {}\n", note);
  return text + fmt::format("trainyard-trainer launch {}\n", ShellWord(flags.output));
}

}  // namespace

void AddInitCommand(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<InitFlags>();
  CLI::App* command = app.add_subcommand("init", "look at data and write a job file that trains on it");
  command
      ->add_option("DIR", flags->path,
                   "folder of the data, or its file: pictures in class folders, CSV, IDX, CIFAR-10, .npz, TFRecord, Parquet, text")
      ->type_name("DIR")
      ->required();
  command->add_option("--output", flags->output, "the job file to write")->type_name("FILE")->capture_default_str();
  command
      ->add_option("--label", flags->label,
                   "the column of CSV that the model learns: its name in the header, or its number from 0. Without it: the one that a file "
                   "for tests lacks, a column named label, class or target, or the last one")
      ->type_name("COLUMN");
  command->footer(
      "trainyard-trainer init examples/data/mnist\n"
      "trainyard-trainer init houses.csv --label price\n"
      "trainyard-trainer init examples/data/tinyshakespeare --output text.yaml");
  command->callback([flags, &exit_code] { exit_code = PrintText(Init(*flags)); });
}

}  // namespace trainyard::engine
