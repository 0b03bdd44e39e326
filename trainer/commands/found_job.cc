#include "trainer/commands/found_job.h"

#include <fmt/format.h>

#include <string_view>
#include <utility>

#include "trainer/base/status_macros.h"
#include "trainer/data/open/csv_fit.h"
#include "trainer/data/open/open_dataset.h"
#include "trainer/job/job_config.h"
#include "trainer/train/model_runner.h"

namespace trainyard::engine {
namespace {

// Opens what a launch opens. Examples are not kept: only the files are in question.
absl::Status CheckOpens(const std::string& text) {
  TY_ASSIGN_OR_RETURN(JobConfig job, ParseJob(text, kFoundJob));
  TrainingConfig& training = job.training;
  training.data.pipeline.examples.clear();
  TY_ASSIGN_OR_RETURN(const ExpectedData expected, ExpectedDataOf(training.model));
  TY_RETURN_IF_ERROR(KnowCsvFit(training.data, expected.classes > 0));
  TY_RETURN_IF_ERROR(OpenDataset(training.data, Split::kTrain, expected, training.seed).status());
  if (!training.data.eval) return absl::OkStatus();
  return OpenDataset(training.data, Split::kEval, expected, training.seed).status();
}

}  // namespace

absl::StatusOr<FoundJob> FindJob(const std::string& path, const std::string& label) {
  TY_ASSIGN_OR_RETURN(FoundData found, FindData(path, label));
  std::string text = JobText(found);
  FoundJob job{.data = std::move(found), .text = std::move(text)};
  if (const absl::Status opens = CheckOpens(job.text); !opens.ok()) {
    const std::string_view reason(opens.message().data(), opens.message().size());
    return absl::InvalidArgumentError(
        fmt::format("{}: a job for it would fail: {}; mend the data, or write the job by hand (docs/data.md)", path, reason));
  }
  return job;
}

}  // namespace trainyard::engine
