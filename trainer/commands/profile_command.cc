#include "trainer/commands/profile_command.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "trainer/base/status_macros.h"
#include "trainer/cli/command_info.h"
#include "trainer/cli/print.h"
#include "trainer/commands/print_text.h"
#include "trainer/profile/merge_profiles.h"
#include "trainer/profile/replica_profile.h"

namespace trainyard::engine {
namespace {

struct ProfileFlags {
  std::string dir;
  size_t rows = 20;
};

// The table, then the files: an error where they cannot be written.
absl::Status Profile(const ProfileFlags& flags) {
  TY_ASSIGN_OR_RETURN(const std::optional<MergedProfiles> merged, MergeProfiles(flags.dir));
  if (!merged) {
    return absl::NotFoundError(fmt::format(
        "{} holds no profile. Either the job has not reached the steps of spec.training.profile, or its replicas write to another "
        "folder, or it records no steps (steps: [0, 0])",
        ProfileFolder(flags.dir)));
  }
  Print(OperatorTableText(merged->table, flags.rows, flags.rows));
  TY_RETURN_IF_ERROR(WithContext(merged->written, "the table is not kept as files, and there is no trace"));
  Print(fmt::format("\n  all rows     {0}/profile.txt, {0}/profile.json\n  trace        {0}/trace.json (open in ui.perfetto.dev)\n",
                    flags.dir));
  return absl::OkStatus();
}

}  // namespace

void AddProfileCommand(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<ProfileFlags>();
  CLI::App* command =
      app.add_subcommand("profile", "print where a job's time went, by operator, and write a trace, from the profiles of its replicas");
  command->add_option("DIR", flags->dir, "the job's output folder")->type_name("DIR")->required();
  InRange(command->add_option("--rows", flags->rows, "how many operators and nodes to print"), 0, 1e6)->capture_default_str();
  command->footer("trainyard-trainer profile out --rows 40");
  command->callback([flags, &exit_code] { exit_code = PrintStatus(Profile(*flags)); });
}

}  // namespace trainyard::engine
