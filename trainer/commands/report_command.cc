#include "trainer/commands/report_command.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <string>

#include "trainer/base/status_macros.h"
#include "trainer/commands/print_text.h"
#include "trainer/page/page_html.h"
#include "trainer/profile/merge_profiles.h"
#include "trainer/report/report.h"

namespace trainyard::engine {
namespace {

// Whether there is a report.json then. `launch` writes it itself. The replicas of pods leave their
// parts only, and nothing where they were killed.
absl::StatusOr<bool> MergeParts(const std::string& dir) {
  std::error_code error;
  if (std::filesystem::exists(dir + "/report.json", error)) return true;
  TY_ASSIGN_OR_RETURN(const std::vector<ReplicaReport> parts, ReadReplicaReports(dir));
  if (parts.empty()) return false;
  TY_ASSIGN_OR_RETURN(std::optional<MergedProfiles> merged, MergeProfiles(dir));
  std::optional<OperatorTable> profile;
  if (merged) {
    TY_RETURN_IF_ERROR(merged->written);
    profile = std::move(merged->table);
  }
  TY_RETURN_IF_ERROR(
      WriteReport(dir, OutcomeOf(std::filesystem::path(dir + "/").parent_path().filename().string(), parts, std::move(profile)), parts));
  return true;
}

absl::StatusOr<std::string> Report(const std::string& dir) {
  TY_ASSIGN_OR_RETURN(const bool has_report, MergeParts(dir));
  TY_RETURN_IF_ERROR(WriteReportPage(dir));
  const std::string page = fmt::format("{}/report.html\n", dir);
  if (has_report) return page;
  return page + "The run has left no report: its launch was killed, or it still trains. The page has its curves so far.\n";
}

}  // namespace

void AddReportCommand(CLI::App& app, int& exit_code) {
  auto dir = std::make_shared<std::string>();
  CLI::App* command = app.add_subcommand("report", "write report.html, a page with the curves and results of a run");
  command->add_option("DIR", *dir, "the job's output folder")->type_name("DIR")->required();
  command->footer("trainyard-trainer report out      # launch does it by itself; after a job of pods, on the volume that they shared");
  command->callback([dir, &exit_code] { exit_code = PrintText(Report(*dir)); });
}

}  // namespace trainyard::engine
