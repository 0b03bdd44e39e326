#include "trainer/bench/bench_server.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <ctime>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "trainer/base/clock.h"
#include "trainer/base/lendable_memory.h"
#include "trainer/base/log.h"
#include "trainer/base/reserved_ports.h"
#include "trainer/base/status_macros.h"
#include "trainer/bench/bench_limits.h"
#include "trainer/bench/child_processes.h"
#include "trainer/kvstore/client.h"
#include "trainer/kvstore/server.h"
#include "trainer/optim/make_optimizer.h"
#include "trainer/transport/grpc_transport.h"
#include "trainer/transport/shared_memory_transport.h"

namespace trainyard::engine {
namespace {

constexpr int kMostWorkers = 64;
constexpr size_t kBlock = 4096;  // floats: the optimizer runs in blocks of so many, as in a server
constexpr double kLearningRate = 0.5;

int64_t RoundsFor(const ServerBenchOptions& options) {
  return options.rounds > 0 ? options.rounds : std::clamp<int64_t>((int64_t{1} << 30) / options.bytes, 20, 1000);
}
int64_t WarmUpOf(int64_t rounds) { return rounds / 10 + 1; }

OptimizerConfig OptimizerOf(const ServerBenchOptions& options) {
  OptimizerConfig config = DefaultOptimizerConfig(options.optimizer);
  config.name = options.optimizer;
  config.learning_rate = kLearningRate;
  return config;
}

std::vector<ParameterSpec> SpecsOf(const ServerBenchOptions& options) {
  return {{.name = "vector", .shape = Shape({options.bytes / static_cast<int64_t>(sizeof(float))}), .trainable = true}};
}

std::unique_ptr<Transport> TransportOf(const ServerBenchOptions& options, std::shared_ptr<LendableMemory> lendable) {
  std::unique_ptr<Transport> transport = MakeGrpcTransport();
  if (!options.shared_memory) return transport;
  return MakeSharedMemoryTransport(std::move(transport), {.lendable = std::move(lendable)});
}

double SecondsOf(clockid_t clock) {
  timespec time{};
  if (clock_gettime(clock, &time) != 0) return 0;
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// The arithmetic of a round and nothing else, over memory of the same size: nanoseconds of
// processor time of a byte.
double MeasureAlone(const ServerBenchOptions& options, const Optimizer& optimizer) {
  const std::vector<ParameterSpec> specs = SpecsOf(options);
  std::vector<ParameterSet> gradients;
  for (int worker = 0; worker < options.workers; ++worker) {
    gradients.emplace_back(specs);
    std::ranges::fill(gradients.back().values(0), 1.0F);  // else all of it is the system's one page of zeros
  }
  ParameterSet values(specs);
  ParameterSet copy(specs);
  std::vector<ParameterSet> slots;
  for (size_t i = 0; i < optimizer.slot_names().size(); ++i) slots.emplace_back(specs);
  std::vector<std::span<float>> block_slots(slots.size());
  const std::span<float> to = copy.values(0);
  const int64_t rounds = RoundsFor(options);
  double start = 0;
  for (int64_t round = -WarmUpOf(rounds); round < rounds; ++round) {
    if (round == 0) start = SecondsOf(CLOCK_THREAD_CPUTIME_ID);
    for (const ParameterSet& gradient : gradients) std::memcpy(to.data(), gradient.values(0).data(), to.size_bytes());
    for (size_t begin = 0; begin < to.size(); begin += kBlock) {
      const size_t count = std::min(kBlock, to.size() - begin);
      for (size_t i = 0; i < slots.size(); ++i) block_slots[i] = slots[i].values(0).subspan(begin, count);
      optimizer.Apply({.learning_rate = kLearningRate, .step = 0}, values.values(0).subspan(begin, count), to.subspan(begin, count),
                      block_slots);
    }
  }
  const double seconds = SecondsOf(CLOCK_THREAD_CPUTIME_ID) - start;
  return 1e9 * seconds / static_cast<double>(rounds * options.workers * options.bytes);
}

absl::Status Serve(const ServerBenchOptions& options, const std::string& address) {
  TY_ASSIGN_OR_RETURN(const std::shared_ptr<LendableMemory> lendable, LendableMemory::Create());
  const std::unique_ptr<Transport> transport = TransportOf(options, lendable);
  TY_ASSIGN_OR_RETURN(const std::unique_ptr<KvServer> server, KvServer::Create({.address = address,
                                                                                .workers = options.workers,
                                                                                .mode = KvMode::kSync,
                                                                                .optimizer = OptimizerOf(options),
                                                                                .specs = SpecsOf(options),
                                                                                .lendable = lendable},
                                                                               *transport));
  return server->Run();
}

// What worker 0 has seen.
struct Seen {
  std::vector<double> microseconds;  // of each round
  double server_seconds = 0;         // of processor time
};

// `server`: its processor clock.
absl::StatusOr<Seen> Work(const ServerBenchOptions& options, const std::vector<std::string>& slots, const std::string& address, int worker,
                          clockid_t server) {
  TY_ASSIGN_OR_RETURN(const std::shared_ptr<LendableMemory> lendable, LendableMemory::Create());
  const std::unique_ptr<Transport> transport = TransportOf(options, lendable);
  const std::vector<ParameterSpec> specs = SpecsOf(options);
  const auto load = [&](bool /*again*/) -> absl::StatusOr<TrainingState> {
    TrainingState state{.parameters = ParameterSet(specs), .slots = {}, .step = 0};
    for (size_t i = 0; i < slots.size(); ++i) state.slots.emplace_back(specs);
    return state;
  };
  TY_ASSIGN_OR_RETURN(const std::unique_ptr<KvClient> client, KvClient::Create({.servers = {address},
                                                                                .worker = worker,
                                                                                .workers = options.workers,
                                                                                .chief = worker == 0,
                                                                                .mode = KvMode::kSync,
                                                                                .specs = specs,
                                                                                .slot_names = slots,
                                                                                .load = load},
                                                                               *transport));
  ParameterSet parameters(specs);
  ParameterSet gradients(specs, lendable.get());
  std::ranges::fill(gradients.values(0), 1.0F);
  TY_ASSIGN_OR_RETURN(const TrainingStart start, client->Start(parameters));
  Seen seen;
  int64_t step = start.worker_step;
  const int64_t rounds = RoundsFor(options);
  for (int64_t round = -WarmUpOf(rounds); round < rounds; ++round) {
    if (round == 0) seen.server_seconds = -SecondsOf(server);
    const absl::Time began = RealClock().Now();
    client->PushGradient(0, gradients.gradient(0), step++);
    TY_RETURN_IF_ERROR(client->Wait(parameters).status());
    if (round >= 0) seen.microseconds.push_back(absl::ToDoubleMicroseconds(RealClock().Now() - began));
  }
  seen.server_seconds += SecondsOf(server);
  if (worker == 0) {
    TY_RETURN_IF_ERROR(client->Release());
    TY_RETURN_IF_ERROR(client->AwaitOthers(absl::Minutes(1)));
  } else {
    TY_RETURN_IF_ERROR(client->AwaitRelease());
  }
  client->Done();
  // All gradients are alike, so all elements are. With sgd each round has taken off the rate.
  const std::span<const float> values = parameters.values(0);
  const bool right = std::ranges::count(values, values[0]) == std::ssize(values) &&
                     (options.optimizer != "sgd" || values[0] == -static_cast<float>(kLearningRate) * static_cast<float>(step));
  return right ? absl::StatusOr<Seen>(std::move(seen)) : absl::InternalError("the values that came back are wrong");
}

absl::Status Check(const ServerBenchOptions& options) {
  if (options.workers < 1 || options.workers > kMostWorkers) {
    return absl::InvalidArgumentError(fmt::format("workers: found {}, expected 1 to {}", options.workers, kMostWorkers));
  }
  if (!IsBenchSize(options.bytes)) {
    return absl::InvalidArgumentError(
        fmt::format("bytes: found {}, expected a multiple of 4 from 4 to {}", options.bytes, kMostBenchBytes));
  }
  if (options.rounds < 0) return absl::InvalidArgumentError(fmt::format("rounds: found {}, expected 0 or more", options.rounds));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ServerBenchResult> BenchServer(const ServerBenchOptions& options) {
  TY_RETURN_IF_ERROR(Check(options));
  TY_ASSIGN_OR_RETURN(const std::unique_ptr<Optimizer> optimizer, MakeOptimizer(OptimizerOf(options)));
  ServerBenchResult result{.options = options, .rounds = RoundsFor(options)};
  result.alone_nanoseconds_per_byte = MeasureAlone(options, *optimizer);
  TY_ASSIGN_OR_RETURN(const ReservedPorts ports, ReservedPorts::Reserve(1));
  const std::string address = fmt::format("127.0.0.1:{}", ports[0]);
  const std::vector<std::string> slots = optimizer->slot_names();
  ChildProcesses others;
  const auto told = [](const std::string& who, const absl::Status& status) {
    if (!status.ok()) LogError("{}: {}", who, std::string(status.message()));
    return status;
  };
  TY_ASSIGN_OR_RETURN(const pid_t server, others.Start([&] { return told("server", Serve(options, address)); }));
  for (int worker = 1; worker < options.workers; ++worker) {
    const auto run = [&] {
      return told(fmt::format("worker {}", worker), Work(options, slots, address, worker, CLOCK_MONOTONIC).status());
    };
    TY_RETURN_IF_ERROR(others.Start(run).status());
  }
  clockid_t clock{};
  if (clock_getcpuclockid(server, &clock) != 0) return absl::InternalError("the server's processor time cannot be read");
  TY_ASSIGN_OR_RETURN(Seen seen, Work(options, slots, address, /*worker=*/0, clock));
  TY_RETURN_IF_ERROR(others.Join());
  std::ranges::sort(seen.microseconds);
  result.median_microseconds = seen.microseconds[seen.microseconds.size() / 2];
  const auto pushed = static_cast<double>(options.workers * options.bytes);
  result.bytes_per_second = 2e6 * pushed / result.median_microseconds;
  result.server_nanoseconds_per_byte = 1e9 * seen.server_seconds / (pushed * static_cast<double>(result.rounds));
  return result;
}

std::string ServerBenchJson(const ServerBenchResult& result) {
  const nlohmann::ordered_json json = {{"workers", result.options.workers},
                                       {"bytes", result.options.bytes},
                                       {"optimizer", result.options.optimizer},
                                       {"sharedMemory", result.options.shared_memory},
                                       {"rounds", result.rounds},
                                       {"medianMicroseconds", result.median_microseconds},
                                       {"bytesPerSecond", result.bytes_per_second},
                                       {"serverNanosecondsPerByte", result.server_nanoseconds_per_byte},
                                       {"aloneNanosecondsPerByte", result.alone_nanoseconds_per_byte},
                                       {"ratio", result.ratio()}};
  return json.dump(2) + "\n";
}

std::string ServerBenchText(const ServerBenchResult& result) {
  const ServerBenchOptions& options = result.options;
  return fmt::format(
      "one server, {} worker{}, {} bytes of parameters, {}, {}, {} rounds\n"
      "  round, median                          {:>9.0f} us\n"
      "  pushed and pulled                      {:>9.2f} GB/s\n"
      "  the server's processor time            {:>9.3f} ns a byte of gradients\n"
      "  a copy and the optimizer alone         {:>9.3f} ns\n"
      "  times as much                          {:>9.2f}\n",
      options.workers, options.workers == 1 ? "" : "s", options.bytes, options.optimizer, options.shared_memory ? "shared memory" : "gRPC",
      result.rounds, result.median_microseconds, result.bytes_per_second / 1e9, result.server_nanoseconds_per_byte,
      result.alone_nanoseconds_per_byte, result.ratio());
}

}  // namespace trainyard::engine
