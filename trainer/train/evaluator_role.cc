#include "trainer/train/evaluator_role.h"

#include <fmt/format.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "trainer/base/log.h"
#include "trainer/base/status_macros.h"
#include "trainer/checkpoint/checkpoint_evaluator.h"
#include "trainer/checkpoint/evaluation_log.h"
#include "trainer/data/open/open_dataset.h"
#include "trainer/data/text/vocabulary.h"
#include "trainer/job/output_folders.h"
#include "trainer/model/build_graph.h"
#include "trainer/report/evaluation_tally.h"
#include "trainer/report/progress_server.h"
#include "trainer/report/report.h"
#include "trainer/report/summary_writer.h"
#include "trainer/train/evaluation_watch.h"
#include "trainer/train/model_runner.h"

namespace trainyard::engine {
namespace {

constexpr absl::Duration kLookPeriod = absl::Milliseconds(500);
constexpr absl::Duration kOldMarkPatience = absl::Minutes(10);  // longer than a chief takes to start

// With what earlier processes of the evaluator have logged.
absl::StatusOr<EvaluationTally> TallyOf(const TrainingConfig& config, const std::string& checkpoints) {
  EvaluationTally tally(config.evaluate, config.checkpoint);
  TY_ASSIGN_OR_RETURN(const EvaluationLog log, EvaluationLog::Open(checkpoints));
  for (const LoggedEvaluation& logged : log.evaluations()) tally.Add(logged.evaluation, std::nullopt);
  return tally;
}

// An evaluator that starts anew, or follows a training that went back, voids what the run has of
// this step and later ones.
absl::Status Tell(const Evaluation& evaluation, SummaryWriter* summaries, std::optional<int64_t>& last_step, Progress& progress) {
  const bool begins = !last_step || evaluation.step <= *last_step;
  if (summaries != nullptr && begins) TY_RETURN_IF_ERROR(summaries->GoOnAfter(evaluation.step - 1));
  last_step = evaluation.step;
  progress.step = evaluation.step;
  progress.epoch = evaluation.epoch;
  for (const auto& [name, value] : evaluation.metrics) {
    LogInfo("step {}: evaluation {} {:.4f}", evaluation.step, name, value);
    progress.metrics[name] = value;
    if (summaries != nullptr) TY_RETURN_IF_ERROR(summaries->Scalar(evaluation.step, "eval/" + name, value));
  }
  return summaries == nullptr ? absl::OkStatus() : summaries->Flush();
}

}  // namespace

absl::Status RunEvaluatorRole(const EvaluatorRoleOptions& options, Backend& backend, StopRequest& stop, Clock& clock) {
  const TrainingConfig& config = options.config;
  const std::string name(RoleName(options.identity.role));
  if (!config.data.eval) {
    return absl::InvalidArgumentError("spec.training.data.eval: missing, expected the split that the evaluator evaluates");
  }
  TY_ASSIGN_OR_RETURN(const ExpectedData expected, ExpectedDataOf(config.model));
  TY_ASSIGN_OR_RETURN(const std::unique_ptr<Dataset> data, OpenDataset(config.data, Split::kEval, expected, config.seed));
  TY_ASSIGN_OR_RETURN(std::vector<ParameterSpec> specs, ParameterSpecsOf(config.model));
  TY_ASSIGN_OR_RETURN(
      const std::unique_ptr<ProgressServer> server,
      ProgressServer::Start(
          {.host = options.identity.listen_host(), .port = options.http_port, .role = name, .index = options.identity.index}));
  std::unique_ptr<SummaryWriter> summaries;
  if (config.summary.every_steps > 0) {
    TY_ASSIGN_OR_RETURN(summaries, SummaryWriter::CreateUnlessFull(SummaryFolder(options.output, config) + "/eval", clock));
  }
  Progress progress;
  ModelRunner model(config.model, backend);
  const CheckpointStore store(CheckpointFolder(options.output, config), config.checkpoint.keep);
  LogInfo("evaluator: watches {} for checkpoints, to evaluate them on {}", store.dir(), data->info().name);
  TY_ASSIGN_OR_RETURN(EvaluationTally tally, TallyOf(config, store.dir()));
  const auto report = [&] {
    const int index = options.identity.index;
    return WriteReplicaReport(options.output, ReplicaReport{.role = name, .index = index, .evaluator = tally.Record(index)});
  };
  TY_RETURN_IF_ERROR(report());
  absl::Duration took;
  const Vocabulary* const vocabulary = data->info().vocabulary.get();
  CheckpointEvaluator evaluator(
      config, store, ParameterSet(std::move(specs)), vocabulary != nullptr ? vocabulary->Sha256Hex() : "",
      [&](const ParameterSet& parameters) -> absl::StatusOr<std::map<std::string, double>> {
        TY_ASSIGN_OR_RETURN(const int64_t examples, ModelRunner::EvaluatedExamples(data->info(), config.batch_size));
        EvaluationWatch watch({.who = name,
                               .examples = examples,
                               .stop = [&stop] { return stop.requested(); },
                               .told =
                                   [&](const std::string& text) {
                                     progress.waiting = text;
                                     server->Update(progress);
                                   }},
                              clock);
        const absl::Time begin = clock.Now();
        TY_ASSIGN_OR_RETURN(const ModelScore score, model.Evaluate(*data, config.batch_size, parameters, watch.Seen(nullptr)));
        took = clock.Now() - begin;
        return MetricsOf(config.model, score);
      });
  std::optional<int64_t> last_step;
  while (!stop.requested()) {
    // Asked before the look for checkpoints: the last one is there when the mark is.
    TY_ASSIGN_OR_RETURN(const bool finished, evaluator.Finished(clock.Now(), kOldMarkPatience));
    TY_ASSIGN_OR_RETURN(const std::optional<Evaluation> evaluation, evaluator.Next());
    if (evaluation) {
      tally.Add(*evaluation, took);
      TY_RETURN_IF_ERROR(report());  // at each: a job that ends does not wait for its evaluator
      TY_RETURN_IF_ERROR(Tell(*evaluation, summaries.get(), last_step, progress));
      progress.updated_time = clock.Wall();
      server->Update(progress);
    } else if (finished) {
      LogInfo("evaluator: the training is done and its last checkpoint is evaluated");
      return absl::OkStatus();
    } else {
      stop.Await(kLookPeriod);
    }
  }
  return absl::CancelledError("stopped");
}

}  // namespace trainyard::engine
