#include "trainer/commands/serve_command.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <string>
#include <string_view>

#include "absl/strings/ascii.h"
#include "trainer/base/printable.h"
#include "trainer/cli/command_info.h"
#include "trainer/cli/palette.h"
#include "trainer/commands/add_options.h"
#include "trainer/commands/make_backend.h"
#include "trainer/serve/serve.h"
#include "trainer/train/stop_request.h"

namespace trainyard::engine {
namespace {

struct ServeFlags {
  TrainedModelOptions checkpoint;
  std::string name = "model";
  std::string host = "127.0.0.1";
  int port = 8080;
  int grpc_port = 8081;
  std::string backend = "cpu";
  int threads = 0;
  int64_t most_batch = 32;
  double most_wait_ms = 0;
  int64_t most_queued = 256;
  double timeout_s = 10;
  double poll_s = 2;
  double drain_s = 10;
  int64_t sequences = 1024;
  double sequence_idle_s = 300;
  int connections = 128;
  int request_mib = 16;
};

ServeOptions OptionsOf(const ServeFlags& flags) {
  const auto request_bytes = static_cast<size_t>(flags.request_mib) << 20;
  const absl::Duration timeout = absl::Seconds(flags.timeout_s);
  const absl::Duration drain = absl::Seconds(flags.drain_s);
  return {.checkpoint = flags.checkpoint,
          .batcher = {.most_batch = BucketOf(flags.most_batch),
                      .most_wait = absl::Milliseconds(flags.most_wait_ms),
                      .most_queued = std::max(flags.most_queued, BucketOf(flags.most_batch))},
          .service = {.name = flags.name,
                      .timeout = timeout,
                      .sequences = {.most = flags.sequences, .idle = absl::Seconds(flags.sequence_idle_s)}},
          .rest = {.host = flags.host,
                   .port = flags.port,
                   .connections = flags.connections,
                   .request_bytes = request_bytes,
                   .timeout = timeout},
          .grpc = {.host = flags.host, .port = flags.grpc_port, .calls = flags.connections, .request_bytes = request_bytes, .drain = drain},
          .poll = absl::Seconds(flags.poll_s),
          .drain = drain};
}

// What is wrong with a name that is to be a part of a path; "" if nothing is.
std::string NameProblem(std::string& name) {
  const auto fits = [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || std::string_view("._-").find(c) != std::string_view::npos;
  };
  if (!name.empty() && std::ranges::all_of(name, fits)) return "";
  return fmt::format("found \"{}\", expected letters, digits, dots, underscores and dashes", Printable(name));
}

// What is wrong with an address to listen at; "" if nothing is.
std::string HostProblem(std::string& host) { return host.empty() ? "found \"\", expected an address such as 127.0.0.1 or 0.0.0.0" : ""; }

int RunServe(const ServeFlags& flags) {
  StopRequest stop;
  const absl::Status served = Serve(OptionsOf(flags), [&flags] { return MakeBackend(flags.backend, flags.threads); }, stop);
  if (!served.ok()) PrintError(std::string(served.message()));
  return served.ok() ? 0 : 1;
}

}  // namespace

void AddServeCommand(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<ServeFlags>();
  CLI::App* command = app.add_subcommand("serve", "answer requests for predictions over HTTP and gRPC");
  AddModelOptions(*command, flags->checkpoint, "job file of the training, for a checkpoint that an older version wrote");
  command->add_option("--name", flags->name, "the model's name in requests")
      ->type_name("NAME")
      ->check(CLI::Validator(NameProblem, "", "name"))
      ->capture_default_str();
  command->add_option("--host", flags->host, "address to listen at; 0.0.0.0 in a container")
      ->type_name("HOST")
      ->check(CLI::Validator(HostProblem, "", "host"))
      ->capture_default_str();
  InRange(command->add_option("--port", flags->port, "port of REST; 0: any free one"), 0, kLargestPort)->capture_default_str();
  InRange(command->add_option("--grpc-port", flags->grpc_port, "port of gRPC; 0: any free one"), 0, kLargestPort)->capture_default_str();
  InRange(command->add_option("--max-batch", flags->most_batch, "examples of a batch at most, rounded up to a power of two"), 1, 1024)
      ->capture_default_str();
  InRange(command->add_option("--max-wait", flags->most_wait_ms,
                              "milliseconds that a request waits for others to share a batch with; 0: it takes those that came while the "
                              "model was busy"),
          0, 10'000)
      ->capture_default_str();
  InRange(command->add_option("--max-queue", flags->most_queued, "examples that wait for the model at most; further requests get 429"), 1,
          1'000'000)
      ->capture_default_str();
  InRange(command->add_option("--timeout", flags->timeout_s, "seconds until a request without an answer gets 504"), 0.001, 3600)
      ->capture_default_str();
  InRange(command->add_option("--poll", flags->poll_s, "seconds between two looks for a newer checkpoint"), 0.01, 3600)
      ->capture_default_str();
  InRange(command->add_option("--drain", flags->drain_s, "seconds after SIGTERM for the requests that have come"), 0.1, 3600)
      ->capture_default_str();
  InRange(command->add_option("--max-sequences", flags->sequences, "sequences of a stateful model at most; further ones get 429"), 1,
          1'000'000)
      ->capture_default_str();
  InRange(command->add_option("--sequence-idle", flags->sequence_idle_s, "seconds without a request until a sequence ends"), 0.1, 86'400)
      ->capture_default_str();
  InRange(command->add_option("--max-connections", flags->connections, "HTTP connections, and gRPC calls, at once"), 1, 10'000)
      ->capture_default_str();
  InRange(command->add_option("--max-request", flags->request_mib, "MiB of a request at most"), 1, 1024)->capture_default_str();
  InRange(command->add_option("--threads", flags->threads, "compute threads; 0: the processors that this process may use"), 0, 1024)
      ->capture_default_str();
  AddBackendOption(*command, flags->backend);
  command->footer(
      "trainyard-trainer serve runs/lenet5-local/DATE                     # the newest checkpoint, and newer ones as they come\n"
      "trainyard-trainer serve out --best --host 0.0.0.0 --name digits\n"
      "curl -d '{\"instances\": [[0.1, 0.5, 2.5]]}' http://127.0.0.1:8080/v1/models/model:predict");
  command->callback([flags, &exit_code] { exit_code = RunServe(*flags); });
}

}  // namespace trainyard::engine
