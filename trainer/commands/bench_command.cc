#include "trainer/commands/bench_command.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "trainer/base/check.h"
#include "trainer/base/status_macros.h"
#include "trainer/bench/bench_allreduce.h"
#include "trainer/bench/bench_limits.h"
#include "trainer/bench/bench_predict.h"
#include "trainer/bench/bench_server.h"
#include "trainer/bench/bench_step.h"
#include "trainer/cli/command_info.h"
#include "trainer/cli/palette.h"
#include "trainer/cli/print.h"
#include "trainer/commands/add_options.h"
#include "trainer/commands/make_backend.h"
#include "trainer/model/build_graph.h"
#include "trainer/model/presets.h"
#include "trainer/optim/make_optimizer.h"

namespace trainyard::engine {
namespace {

constexpr int64_t kMostRounds = 1'000'000'000;
constexpr int kMostThreads = 1024;

// What is wrong with one of the sizes, which commas keep apart; "": nothing.
std::string WrongSize(const std::string& sizes) {
  for (const absl::string_view size : absl::StrSplit(sizes, ',')) {
    int64_t bytes = 0;
    if (absl::SimpleAtoi(size, &bytes) && IsBenchSize(bytes)) continue;
    return fmt::format("found \"{}\", expected a multiple of 4 from 4 to {}", std::string(size), kMostBenchBytes);
  }
  return "";
}

void AddOptimizer(CLI::App& command, std::string& optimizer) {
  const std::span<const std::string_view> names = OptimizerNames();
  OneOf(command.add_option("--optimizer", optimizer, "with its default options"), {names.begin(), names.end()})->capture_default_str();
}

void AddThreads(CLI::App& command, int& threads) {
  InRange(command.add_option("--threads", threads, "compute threads; 0: as many as the cgroup allows"), 0, kMostThreads)
      ->capture_default_str();
}

void AddAllReduce(CLI::App& bench, int& exit_code) {
  CLI::App* command =
      bench.add_subcommand("allreduce", "measure the sum of a vector over processes of this machine, as training adds gradients");
  auto options = std::make_shared<AllReduceBenchOptions>();
  auto sizes = std::make_shared<std::string>("65536,1048576,16777216");
  auto algorithm = std::make_shared<std::string>("auto");
  auto json = std::make_shared<bool>(false);
  auto network = std::make_shared<bool>(false);
  InRange(command->add_option("--ranks", options->ranks, "processes"), 1, 64)->capture_default_str();
  command->add_option("--bytes", *sizes, "sizes of the vector, apart by commas; they are measured in turn")
      ->check(CLI::Validator(WrongSize, "", "sizes"))
      ->type_name("SIZES")
      ->capture_default_str();
  InRange(command->add_option("--rounds", options->rounds, "sums of each size; 0: 20 to 1000, fewer of more bytes"), 0, kMostRounds)
      ->capture_default_str();
  OneOf(command->add_option("--algorithm", *algorithm, "the way in which values are added"), {"auto", "direct", "halvingDoubling"})
      ->capture_default_str();
  command->add_flag("--network", *network, "talk over the network, not through shared memory");
  command->add_flag("--json", *json, "print JSON");
  command->footer(
      "trainyard-trainer bench allreduce --ranks 4\n"
      "trainyard-trainer bench allreduce --bytes 65536,16777216 --network --json");
  command->callback([options, sizes, algorithm, network, json, &exit_code] {
    options->bytes.clear();
    for (const absl::string_view size : absl::StrSplit(*sizes, ',')) TY_CHECK(absl::SimpleAtoi(size, &options->bytes.emplace_back()));
    for (const auto known : {AllReduceAlgorithm::kDirect, AllReduceAlgorithm::kHalvingDoubling}) {
      if (AlgorithmName(known) == *algorithm) options->algorithm = known;
    }
    options->shared_memory = !*network;
    const absl::StatusOr<AllReduceBenchResult> result = BenchAllReduce(*options);
    if (!result.ok()) {
      PrintError(std::string(result.status().message()));
      exit_code = 1;
      return;
    }
    Print(*json ? AllReduceBenchJson(*result) : AllReduceBenchText(*result));
  });
}

void AddServer(CLI::App& bench, int& exit_code) {
  CLI::App* command =
      bench.add_subcommand("server", "measure a parameter server on this machine: bytes a second, processor time of a byte");
  auto options = std::make_shared<ServerBenchOptions>();
  auto json = std::make_shared<bool>(false);
  auto network = std::make_shared<bool>(false);
  InRange(command->add_option("--workers", options->workers, "processes that push"), 1, 64)->capture_default_str();
  command->add_option("--bytes", options->bytes, "of the parameters")->check(CLI::Validator(WrongSize, "", "bytes"))->capture_default_str();
  AddOptimizer(*command, options->optimizer);
  InRange(command->add_option("--rounds", options->rounds, "pushes of each worker; 0: 20 to 1000, fewer of more bytes"), 0, kMostRounds)
      ->capture_default_str();
  command->add_flag("--network", *network, "talk over the network, not through shared memory");
  command->add_flag("--json", *json, "print JSON");
  command->footer(
      "trainyard-trainer bench server --workers 2\n"
      "trainyard-trainer bench server --bytes 67108864 --optimizer adam --network --json");
  command->callback([options, network, json, &exit_code] {
    options->shared_memory = !*network;
    const absl::StatusOr<ServerBenchResult> result = BenchServer(*options);
    if (!result.ok()) {
      PrintError(std::string(result.status().message()));
      exit_code = 1;
      return;
    }
    Print(*json ? ServerBenchJson(*result) : ServerBenchText(*result));
  });
}

void AddPredict(CLI::App& bench, int& exit_code) {
  CLI::App* command = bench.add_subcommand("predict", "measure predictions of a checkpoint as `serve` makes them, without HTTP");
  auto options = std::make_shared<PredictBenchOptions>();
  auto json = std::make_shared<bool>(false);
  command->add_option("checkpoint", options->checkpoint, "a run's output folder, its folder of checkpoints, or one checkpoint")
      ->required()
      ->type_name("CHECKPOINT");
  InRange(command->add_option("--batch", options->batch, "examples in a call"), 1, kMostBenchExamples)->capture_default_str();
  AddThreads(*command, options->threads);
  OneOf(command->add_option("--isa", options->isa, "kernels to use"), {"auto", "avx512", "avx2", "baseline", "neon"})
      ->capture_default_str();
  InRange(command->add_option("--seconds", options->seconds, "how long to measure"), 0, 3600)->capture_default_str();
  command->add_flag("--json", *json, "print JSON");
  command->footer(
      "trainyard-trainer bench predict out/digits --batch 1\n"
      "trainyard-trainer bench predict out/digits --batch 32 --json");
  command->callback([options, json, &exit_code] {
    const absl::StatusOr<PredictBenchResult> result = BenchPredict(*options);
    if (!result.ok()) {
      PrintError(std::string(result.status().message()));
      exit_code = 1;
      return;
    }
    Print(*json ? PredictBenchJson(*result) : PredictBenchText(*result));
  });
}

absl::StatusOr<BenchResult> BenchOn(const std::string& name, BenchOptions options) {
  if (name == "cpu" && !IsOfGpus(options.precision)) return BenchStep(options);  // which may ask for kernels
  TY_ASSIGN_OR_RETURN(const std::unique_ptr<Backend> backend, MakeBackend(name, options.threads, options.precision));
  options.backend = backend.get();
  absl::StatusOr<BenchResult> result = BenchStep(options);
  if (result.ok()) result->options.backend = nullptr;
  return result;
}

}  // namespace

void AddBenchCommand(CLI::App& app, int& exit_code) {
  CLI::App* bench = app.add_subcommand(
      "bench", "measure training steps of a model on this machine: images per second, GFLOP/s by layer, share of the peak");
  auto options = std::make_shared<BenchOptions>();
  auto precision = std::make_shared<std::string>(PrecisionName(options->precision));
  auto backend = std::make_shared<std::string>("cpu");
  auto json = std::make_shared<bool>(false);
  OneOf(bench->add_option("--model", options->model, "a preset"), PresetNames())->capture_default_str();
  AddOptimizer(*bench, options->optimizer);
  InRange(bench->add_option("--batch", options->batch, "examples in a step"), 1, kMaxBatch)->capture_default_str();
  AddThreads(*bench, options->threads);
  OneOf(bench->add_option("--isa", options->isa, "kernels to use"), {"auto", "amx", "avx512bf16", "avx512", "avx2", "baseline", "neon"})
      ->capture_default_str();
  AddBackendOption(*bench, *backend);
  OneOf(bench->add_option("--precision", *precision, "of the operands of products"), {"float32", "bfloat16", "float16", "tf32"})
      ->capture_default_str();
  InRange(bench->add_option("--seconds", options->seconds, "how long to measure"), 0, 3600)->capture_default_str();
  bench->add_flag("--roofline", options->roofline, "by kind of op: operations, bytes, and the share of what processor and memory allow");
  bench->add_flag("--json", *json, "print JSON");
  bench->footer(
      "trainyard-trainer bench --model lenet5 --batch 128\n"
      "trainyard-trainer bench --model lenet5 --precision bfloat16\n"
      "trainyard-trainer bench --model resnet56v2 --threads 4 --json\n"
      "trainyard-trainer bench --model ptbLstm --batch 20 --roofline\n"
      "trainyard-trainer bench allreduce --ranks 4\n"
      "trainyard-trainer bench server --workers 2\n"
      "trainyard-trainer bench predict out/digits --batch 1");
  AddAllReduce(*bench, exit_code);
  AddServer(*bench, exit_code);
  AddPredict(*bench, exit_code);
  bench->callback([bench, options, precision, backend, json, &exit_code] {
    if (!bench->get_subcommands().empty()) return;
    for (const Precision known : {Precision::kBfloat16, Precision::kFloat16, Precision::kTf32}) {
      if (PrecisionName(known) == *precision) options->precision = known;
    }
    const absl::StatusOr<BenchResult> result = BenchOn(*backend, *options);
    if (!result.ok()) {
      PrintError(std::string(result.status().message()));
      exit_code = 1;
      return;
    }
    Print(*json ? BenchJson(*result) : BenchText(*result));
  });
}

}  // namespace trainyard::engine
