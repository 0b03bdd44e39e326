#include "trainer/commands/compare_command.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "trainer/base/output_file.h"
#include "trainer/base/status_macros.h"
#include "trainer/cli/print.h"
#include "trainer/commands/print_text.h"
#include "trainer/page/compare_runs.h"
#include "trainer/page/page_html.h"
#include "trainer/page/run_reader.h"

namespace trainyard::engine {
namespace {

constexpr int kMostRuns = 32;

struct CompareFlags {
  std::vector<std::string> dirs;
  std::string html;  // "": no page
};

// The tables, then the page: an error where it cannot be written.
absl::Status CompareFolders(const CompareFlags& flags) {
  std::vector<nlohmann::ordered_json> runs;
  for (const std::string& dir : flags.dirs) {
    TY_ASSIGN_OR_RETURN(runs.emplace_back(), RunReader(dir).Read());
  }
  const Comparison comparison = Compare(flags.dirs, runs);
  Print(ComparisonText(comparison));
  if (flags.html.empty()) return absl::OkStatus();
  TY_RETURN_IF_ERROR(WriteOutputFile(flags.html, PageHtml(ComparisonPage(comparison, runs))));
  Print(fmt::format("\n{}\n", flags.html));
  return absl::OkStatus();
}

}  // namespace

void AddCompareCommand(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<CompareFlags>();
  CLI::App* command = app.add_subcommand("compare", "print where runs differ, in their job files and in their results");
  command->add_option("DIR", flags->dirs, "the output folders of two or more runs")->type_name("DIR")->required()->expected(2, kMostRuns);
  command->add_option("--html", flags->html, "also write a page with the curves of all runs, laid over each other")->type_name("FILE");
  command->footer("trainyard-trainer compare runs/lenet5-ps/* --html compare.html");
  command->callback([flags, &exit_code] { exit_code = PrintStatus(CompareFolders(*flags)); });
}

}  // namespace trainyard::engine
