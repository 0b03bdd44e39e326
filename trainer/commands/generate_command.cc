#include "trainer/commands/generate_command.h"

#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "trainer/base/log.h"
#include "trainer/base/status_macros.h"
#include "trainer/cli/command_info.h"
#include "trainer/commands/add_options.h"
#include "trainer/commands/generate.h"
#include "trainer/commands/make_backend.h"
#include "trainer/commands/print_text.h"

namespace trainyard::engine {
namespace {

struct GenerateFlags {
  std::string path;
  std::string vocabulary;  // "": found beside the checkpoint
  std::string backend = "cpu";
  GenerateOptions options;
};

absl::StatusOr<std::string> TextOf(const GenerateFlags& flags) {
  TY_ASSIGN_OR_RETURN(const std::unique_ptr<Backend> backend, MakeBackend(flags.backend, /*threads=*/1));
  TY_ASSIGN_OR_RETURN(const std::unique_ptr<TextGenerator> generator, TextGenerator::Open(flags.path, flags.vocabulary, *backend));
  LogInfo("{}, seed {}", generator->checkpoint(), flags.options.seed);
  TY_ASSIGN_OR_RETURN(std::string text, generator->Generate(flags.options));
  return text += '\n';
}

}  // namespace

void AddGenerateCommand(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<GenerateFlags>();
  GenerateOptions& options = flags->options;
  CLI::App* command = app.add_subcommand("generate", "write text with a trained language model");
  command->add_option("DIR", flags->path, "a run's output folder, its folder of checkpoints, or one checkpoint")
      ->type_name("DIR")
      ->required();
  command
      ->add_option("--vocabulary", flags->vocabulary,
                   "the run's vocabulary.json; without it the one in the checkpoint's folder or beside it")
      ->type_name("FILE");
  command->add_option("--prompt", options.prompt, "text that the model continues");
  InRange(command->add_option("--length", options.length, "tokens to write"), 1, 1'000'000)->capture_default_str();
  InRange(command->add_option("--temperature", options.sampling.temperature,
                              "temperature of sampling; below 1: likely tokens more often; 0: always the likeliest token"),
          0, 100)
      ->capture_default_str();
  InRange(command->add_option("--top-k", options.sampling.top_k, "number of likeliest tokens to choose from; 0: all"), 0, 1'000'000'000)
      ->capture_default_str();
  command->add_option("--seed", options.seed, "seed of the random choices")->capture_default_str();
  AddBackendOption(*command, flags->backend);
  command->footer(
      "trainyard-trainer generate out/chars --prompt \"ROMEO:\" --temperature 0.7\n"
      "trainyard-trainer generate out/chars --length 2000 --seed 3");
  command->callback([flags, &exit_code] { exit_code = PrintText(TextOf(*flags)); });
}

}  // namespace trainyard::engine
