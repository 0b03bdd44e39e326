#include "trainer/train/generate_command.h"

#include <spdlog/spdlog.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "trainer/base/status_macros.h"
#include "trainer/train/generate.h"
#include "trainer/train/make_backend.h"
#include "trainer/train/print_text.h"

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
  spdlog::info("{}, seed {}", generator->checkpoint(), flags.options.seed);
  TY_ASSIGN_OR_RETURN(std::string text, generator->Generate(flags.options));
  return text += '\n';
}

}  // namespace

void AddGenerateCommand(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<GenerateFlags>();
  GenerateOptions& options = flags->options;
  CLI::App* command = app.add_subcommand("generate", "write text of a trained language model");
  command->add_option("--checkpoint,DIR", flags->path, "a run's output folder, its folder of checkpoints, or one checkpoint")->required();
  command->add_option("--vocabulary", flags->vocabulary,
                      "the run's vocabulary.json; without it the one in the checkpoint's folder or beside it");
  command->add_option("--prompt", options.prompt, "text to go on from");
  command->add_option("--length", options.length, "tokens to write")->check(CLI::Range(1, 1'000'000))->capture_default_str();
  command->add_option("--temperature", options.sampling.temperature, "below 1: more of the likely; 0: always the likeliest token")
      ->check(CLI::Range(0.0, 100.0))
      ->capture_default_str();
  command->add_option("--top-k", options.sampling.top_k, "choose among so many likeliest tokens; 0: among all")
      ->check(CLI::Range(0, 1'000'000'000))
      ->capture_default_str();
  command->add_option("--seed", options.seed, "another seed, another text")->capture_default_str();
  command->add_option("--backend", flags->backend, "cpu or reference")->capture_default_str();
  command->callback([flags, &exit_code] { exit_code = PrintText(TextOf(*flags)); });
}

}  // namespace trainyard::engine
