#include "trainer/commands/bench_command.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>

#include "trainer/bench/bench_step.h"
#include "trainer/cli/command_info.h"
#include "trainer/cli/palette.h"

namespace trainyard::engine {

void AddBenchCommand(CLI::App& app, int& exit_code) {
  CLI::App* bench = app.add_subcommand(
      "bench", "measure training steps of a model on this machine: images per second, GFLOP/s by layer, share of the peak");
  auto options = std::make_shared<BenchOptions>();
  auto json = std::make_shared<bool>(false);
  bench->add_option("--model", options->model, "a preset: lenet5, mnistCnn, resnet56v2, ptbLstm, linear")
      ->capture_default_str()
      ->type_name("PRESET");
  bench->add_option("--optimizer", options->optimizer, "sgd, momentum, nesterov, adagrad, adadelta, rmsprop, adam, adamw")
      ->capture_default_str()
      ->type_name("NAME");
  bench->add_option("--batch", options->batch, "examples in a step")->capture_default_str();
  bench->add_option("--threads", options->threads, "compute threads; 0: as many as the cgroup allows")->capture_default_str();
  OneOf(bench->add_option("--isa", options->isa, "kernels to use"), {"auto", "avx512", "avx2", "baseline", "neon"})->capture_default_str();
  InRange(bench->add_option("--seconds", options->seconds, "how long to measure"), 0, 3600)->capture_default_str();
  bench->add_flag("--json", *json, "print JSON");
  bench->footer(
      "trainyard-trainer bench --model lenet5 --batch 128\n"
      "trainyard-trainer bench --model resnet56v2 --threads 4 --json");
  bench->callback([options, json, &exit_code] {
    const absl::StatusOr<BenchResult> result = BenchStep(*options);
    if (!result.ok()) {
      PrintError(std::string(result.status().message()));
      exit_code = 1;
      return;
    }
    fmt::print("{}", *json ? BenchJson(*result) : BenchText(*result));
  });
}

}  // namespace trainyard::engine
