#include "trainer/commands/data_command.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "trainer/base/clock.h"
#include "trainer/base/counted.h"
#include "trainer/base/log.h"
#include "trainer/base/made_folders.h"
#include "trainer/base/status_macros.h"
#include "trainer/cli/command_info.h"
#include "trainer/cli/print.h"
#include "trainer/commands/add_options.h"
#include "trainer/commands/data_stats.h"
#include "trainer/commands/found_data.h"
#include "trainer/commands/pipeline_bench.h"
#include "trainer/commands/print_text.h"
#include "trainer/commands/store_job.h"
#include "trainer/data/open/class_names.h"
#include "trainer/data/open/csv_fit.h"
#include "trainer/data/open/open_dataset.h"
#include "trainer/data/store/store_dataset.h"
#include "trainer/data/store/store_writer.h"
#include "trainer/job/job_config.h"
#include "trainer/train/model_runner.h"

namespace trainyard::engine {
namespace {

struct DataFlags {
  std::string job;
  std::vector<std::string> overrides;
  std::string dir;
  int64_t shards = 8;
  double seconds = 3;
  bool json = false;
};

// Says how far it is, at most once a second.
class ProgressLog {
 public:
  ProgressLog(std::string what, int64_t total, Clock& clock) : what_(std::move(what)), total_(total), clock_(clock), last_(clock.Now()) {}
  void operator()(int64_t done) {
    const absl::Time now = clock_.Now();
    if (now - last_ < absl::Seconds(1)) return;
    last_ = now;
    LogInfo("{}: {} of {} examples", what_, done, total_);
  }

 private:
  const std::string what_;
  const int64_t total_;
  Clock& clock_;
  absl::Time last_;
};

absl::Status ConvertSplit(const TrainingConfig& config, Split split, const DataFlags& flags) {
  TY_ASSIGN_OR_RETURN(const ExpectedData expected, ExpectedDataOf(config.model));
  TY_ASSIGN_OR_RETURN(const std::unique_ptr<Dataset> dataset, OpenDataset(config.data, split, expected, config.seed));
  const std::string name = split == Split::kTrain ? "train" : "eval";
  const std::string dir = fmt::format("{}/{}", flags.dir, name);
  ProgressLog progress(name, dataset->info().examples, RealClock());
  const int64_t shards = std::min(flags.shards, dataset->info().examples);
  TY_ASSIGN_OR_RETURN(const MadeFolders folders, MadeFolders::Make(flags.dir));
  TY_RETURN_IF_ERROR(WriteStore(*dataset, {.dir = dir, .shards = shards, .source = dataset->info().name, .progress = std::ref(progress)}));
  Print(fmt::format("{}: {} in {}\n", dir, Counted(dataset->info().examples, "example"), Counted(shards, "shard")));
  return absl::OkStatus();
}

// The names by number; none where an example has no class of its own.
absl::StatusOr<std::vector<std::string>> NamesOfClasses(const TrainingConfig& config) {
  TY_ASSIGN_OR_RETURN(const ExpectedData expected, ExpectedDataOf(config.model));
  if (expected.classes == 0 || expected.label_shape.rank() > 0) return std::vector<std::string>();
  return ClassNamesOf(config.data, expected.classes);
}

// The examples as they come out of their files: the stages stay with the job.
absl::Status Convert(const DataFlags& flags) {
  TY_ASSIGN_OR_RETURN(TrainingConfig config, ReadTrainingFile(flags.job, flags.overrides));
  if (config.data.format == DataConfig::Format::kText) {
    return absl::UnimplementedError(
        "text is one stream whose examples overlap; a store would hold each token many times. Workers read its files");
  }
  if (config.data.csv.standardize_label) {
    return absl::InvalidArgumentError(
        "data.standardizeLabel: found true, expected false: a store has no place for the label's mean and std; add --set "
        "training.data.standardizeLabel=false, or train on the files");
  }
  config.data.pipeline = PipelineConfig{};
  TY_RETURN_IF_ERROR(ConvertSplit(config, Split::kTrain, flags));
  if (config.data.eval) TY_RETURN_IF_ERROR(ConvertSplit(config, Split::kEval, flags));
  TY_ASSIGN_OR_RETURN(const std::vector<std::string> classes, NamesOfClasses(config));
  Print(StoreJobText(flags.dir, config.data, classes));
  return absl::OkStatus();
}

absl::Status InspectStore(const DataFlags& flags) {
  TY_ASSIGN_OR_RETURN(const StoreManifest manifest, ReadManifest(flags.dir));
  Print(fmt::format("{}: {} in {}, made of {}\n", flags.dir, Counted(manifest.examples, "example"),
                    Counted(static_cast<int64_t>(manifest.shards.size()), "shard"), manifest.source));
  Print(fmt::format("example  {} of {}, times {}\n", manifest.example_shape.ToString(), DTypeName(manifest.x_dtype), manifest.x_scale));
  if (manifest.y_dtype == DType::kI32) {
    Print(fmt::format("label    class number, {} to {}\n", manifest.label_minimum, manifest.label_maximum));
  } else {
    Print(fmt::format("label    {} of {}\n", manifest.label_shape.ToString(), DTypeName(manifest.y_dtype)));
  }
  for (const StoreShard& shard : manifest.shards) {
    Print(fmt::format("{:<20} {:>10} examples {:>14} bytes  crc32c {:08x}\n", shard.file, shard.examples, shard.bytes, shard.crc32c));
  }
  return absl::OkStatus();
}

absl::Status Verify(const DataFlags& flags) {
  TY_RETURN_IF_ERROR(VerifyStore(flags.dir));
  Print(fmt::format("{}: every shard is as its manifest says\n", flags.dir));
  return absl::OkStatus();
}

absl::Status Bench(const DataFlags& flags) {
  TY_ASSIGN_OR_RETURN(const TrainingConfig config, ReadTrainingFile(flags.job, flags.overrides));
  TY_ASSIGN_OR_RETURN(const ExpectedData expected, ExpectedDataOf(config.model));
  TY_ASSIGN_OR_RETURN(const std::unique_ptr<Dataset> dataset, OpenDataset(config.data, Split::kTrain, expected, config.seed));
  TY_ASSIGN_OR_RETURN(const PipelineSpeed speed, MeasurePipeline(*dataset, config, absl::Seconds(flags.seconds), RealClock()));
  Print(SpeedText(speed));
  return absl::OkStatus();
}

// Of a job file, or of the job that `init` would write for a folder or file.
absl::StatusOr<TrainingConfig> JobOrFound(const DataFlags& flags) {
  const bool is_job = flags.job.ends_with(".yaml") || flags.job.ends_with(".yml") || flags.job.ends_with(".json");
  if (is_job) return ReadTrainingFile(flags.job, flags.overrides);
  TY_ASSIGN_OR_RETURN(const FoundData found, FindData(flags.job));
  return ParseTrainingText(JobText(found), kFoundJob, flags.overrides);
}

// Examples as they come out of their files. Damaged ones are told with the others' numbers.
absl::Status Stats(const DataFlags& flags) {
  TY_ASSIGN_OR_RETURN(TrainingConfig config, JobOrFound(flags));
  config.data.pipeline.examples.clear();
  config.data.csv.standardize_label = false;
  TY_ASSIGN_OR_RETURN(const ExpectedData expected, ExpectedDataOf(config.model));
  TY_RETURN_IF_ERROR(KnowCsvFit(config.data, expected.classes > 0));
  TY_ASSIGN_OR_RETURN(const std::vector<std::string> classes, NamesOfClasses(config));
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  int64_t damaged = 0;
  for (const Split split : {Split::kTrain, Split::kEval}) {
    if (split == Split::kEval && !config.data.eval) continue;
    const std::string name = split == Split::kTrain ? "train" : "eval";
    TY_ASSIGN_OR_RETURN(const std::unique_ptr<Dataset> dataset, OpenDataset(config.data, split, expected, config.seed));
    const DataStats stats = StatsOf(*dataset, expected.classes);
    damaged += stats.damaged;
    if (flags.json) json[name] = StatsJson(stats, classes);
    if (!flags.json) Print(StatsText(name, stats, classes));
  }
  if (flags.json) Print(json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n");
  if (damaged > 0)
    return absl::DataLossError(fmt::format("{} {} damaged; remove or mend {}", Counted(damaged, "example"), damaged == 1 ? "is" : "are",
                                           damaged == 1 ? "it" : "them"));
  return absl::OkStatus();
}

using DataAction = absl::Status (*)(const DataFlags&);

void AddAction(CLI::App& parent, const char* name, const char* help, const char* example, DataAction action, int& exit_code) {
  CLI::App* command = parent.add_subcommand(name, help);
  command->footer(example);
  auto flags = std::make_shared<DataFlags>();
  const bool of_job = action == Convert || action == Bench;
  if (of_job) {
    command->add_option("--job", flags->job, "TrainingJob file or training.json")->type_name("FILE")->required();
    AddSetOption(*command, flags->overrides);
  } else if (action == Stats) {
    command->add_option("DATA", flags->job, "a job file, or a folder or file of data as `init` takes it")->type_name("DATA")->required();
    AddSetOption(*command, flags->overrides);
    command->add_flag("--json", flags->json, "print one JSON object");
  } else {
    command->add_option("DIR", flags->dir, "folder of the store: that of manifest.json")->type_name("DIR")->required();
  }
  if (action == Convert) {
    command->add_option("--out", flags->dir, "folder of the stores to write, one a split: train/ and eval/")->type_name("DIR")->required();
    InRange(command->add_option("--shards", flags->shards, "files of each split"), 1, 100'000)->capture_default_str();
  }
  if (action == Bench) InRange(command->add_option("--seconds", flags->seconds, "how long to measure"), 0.1, 600)->capture_default_str();
  command->callback([flags, action, &exit_code] { exit_code = PrintStatus(action(*flags)); });
}

}  // namespace

void AddDataCommand(CLI::App& app, int& exit_code) {
  CLI::App* data = app.add_subcommand("data", "look at data sets, convert them to stores, measure input pipelines");
  data->require_subcommand(1);
  data->footer(
      "trainyard-trainer data convert --job job.yaml --out store\n"
      "trainyard-trainer data verify store/train");
  AddAction(*data, "convert", "write the data of a job as a dataset store: checksummed shards with an index",
            "trainyard-trainer data convert --job examples/lenet5-local.yaml --out store --shards 4", Convert, exit_code);
  AddAction(*data, "stats", "count examples and classes, print mean and spread, and name damaged files",
            "trainyard-trainer data stats examples/lenet5-local.yaml\n"
            "trainyard-trainer data stats examples/data/mnist --json",
            Stats, exit_code);
  AddAction(*data, "inspect", "print the content of a dataset store", "trainyard-trainer data inspect store/train", InspectStore,
            exit_code);
  AddAction(*data, "verify", "read a dataset store and compare it with its checksums", "trainyard-trainer data verify store/train", Verify,
            exit_code);
  AddAction(*data, "bench", "measure the input pipeline of a job alone, in examples a second",
            "trainyard-trainer data bench --job examples/lenet5-pipeline.yaml --seconds 5", Bench, exit_code);
}

}  // namespace trainyard::engine
