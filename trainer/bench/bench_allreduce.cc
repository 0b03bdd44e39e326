#include "trainer/bench/bench_allreduce.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "trainer/base/clock.h"
#include "trainer/base/lendable_memory.h"
#include "trainer/base/log.h"
#include "trainer/base/process_usage.h"
#include "trainer/base/reserved_ports.h"
#include "trainer/base/status_macros.h"
#include "trainer/bench/bench_limits.h"
#include "trainer/bench/child_processes.h"
#include "trainer/collectives/bucket_cut.h"
#include "trainer/collectives/measure_network.h"
#include "trainer/collectives/rank_group.h"
#include "trainer/tensor/buffer.h"
#include "trainer/transport/grpc_transport.h"
#include "trainer/transport/shared_memory_transport.h"

namespace trainyard::engine {
namespace {

constexpr int kMostRanks = 64;

int64_t RoundsFor(const AllReduceBenchOptions& options, int64_t bytes) {
  return options.rounds > 0 ? options.rounds : std::clamp<int64_t>((int64_t{256} << 20) / bytes, 20, 1000);
}

// One rank of the group, over all sizes.
class BenchRank {
 public:
  static absl::StatusOr<std::vector<AllReduceBenchRow>> Run(const AllReduceBenchOptions& options, const std::vector<std::string>& hosts,
                                                            int rank) {
    std::unique_ptr<Transport> transport = MakeGrpcTransport();
    BenchRank self(options, rank);
    if (options.shared_memory) {
      TY_ASSIGN_OR_RETURN(self.lendable_, LendableMemory::Create());
      transport = MakeSharedMemoryTransport(std::move(transport), {.lendable = self.lendable_});
    }
    TY_ASSIGN_OR_RETURN(
        self.group_, RankGroup::Create({.hosts = hosts, .listen = hosts[rank], .rank = rank, .algorithm = options.algorithm}, *transport));
    TY_RETURN_IF_ERROR(self.Form());
    TY_RETURN_IF_ERROR(self.Choose());
    std::vector<AllReduceBenchRow> rows;
    for (const int64_t bytes : options.bytes) {
      TY_ASSIGN_OR_RETURN(rows.emplace_back(), self.Measure(bytes));
    }
    self.group_->Finish(self.step_);
    if (rank == 0) {
      self.group_->Release();
    } else {
      TY_RETURN_IF_ERROR(self.group_->AwaitRelease());
    }
    self.group_->Done();
    self.group_.reset();
    return rows;
  }

 private:
  BenchRank(const AllReduceBenchOptions& options, int rank) : options_(options), rank_(rank) {}

  absl::Status Form() {
    if (rank_ > 0) return group_->Join({}).status();
    TY_RETURN_IF_ERROR(group_->Gather().status());
    group_->Form({});
    return absl::OkStatus();
  }

  absl::Status Choose() {
    choice_ = {.small = options_.algorithm, .large = options_.algorithm};
    if (options_.algorithm != AllReduceAlgorithm::kAuto) return absl::OkStatus();
    TY_ASSIGN_OR_RETURN(const MeasuredNetwork measured, MeasureNetwork(*group_, {.rank = rank_}));
    choice_ = measured.choice;
    return absl::OkStatus();
  }

  absl::StatusOr<AllReduceBenchRow> Measure(int64_t bytes) {
    const auto elements = static_cast<size_t>(bytes) / sizeof(float);
    const std::vector<BucketCut> cuts = CutIntoBuckets(std::vector<size_t>{elements}, kBucketBytes);
    OperationPlan plan{.name = "all-reduce", .buckets = {}};
    for (const BucketCut& cut : cuts) {
      const size_t size = ElementsOf(cut);
      const AllReduceAlgorithm algorithm = choice_.Of(size * sizeof(float));
      plan.buckets.push_back({.name = "'vector'", .elements = size, .schedule = AllReduce(algorithm, rank_, group_->layout(), size)});
    }
    Operation operation(plan, rank_, options_.ranks, group_->borrowed());
    // In place: each round begins with what the one before has left, so memory moves as it does
    // where gradients are written anew. All ranks have the mean of their first values from then on.
    Buffer memory(elements * sizeof(float), lendable_.get());
    const std::span<float> values(memory.as<float>(), elements);
    std::ranges::fill(values, static_cast<float>(rank_ + 1));

    const int64_t rounds = RoundsFor(options_, bytes);
    std::vector<double> microseconds;
    double cpu_seconds = 0;
    for (int64_t round = -(rounds / 10) - 1; round < rounds; ++round) {
      if (round == 0) cpu_seconds = ReadProcessUsage().cpu_seconds;
      const absl::Time start = RealClock().Now();
      group_->Begin(operation, {.step = step_++, .kind = OperationId::Kind::kReduce});
      for (size_t i = 0; i < cuts.size(); ++i) {
        const BucketSegment& segment = cuts[i].front();  // of one tensor there is one in each bucket
        const std::span<float> bucket = values.subspan(segment.begin, segment.count);
        group_->Contribute(i, {.own = {bucket}, .targets = {{.values = bucket, .divisor = Divisor::kAll}}});
      }
      TY_RETURN_IF_ERROR(group_->Wait().status());
      if (round >= 0) microseconds.push_back(absl::ToDoubleMicroseconds(RealClock().Now() - start));
    }
    cpu_seconds = ReadProcessUsage().cpu_seconds - cpu_seconds;
    const float expected = static_cast<float>(options_.ranks + 1) / 2;
    if (std::ranges::count(values, expected) != std::ssize(values))
      return absl::InternalError(fmt::format("{} bytes: a sum is wrong", bytes));
    std::ranges::sort(microseconds);
    return AllReduceBenchRow{.bytes = bytes,
                             .rounds = rounds,
                             .median_microseconds = microseconds[microseconds.size() / 2],
                             .best_microseconds = microseconds.front(),
                             .cpu_microseconds = 1e6 * cpu_seconds / static_cast<double>(rounds)};
  }

  const AllReduceBenchOptions options_;
  const int rank_;
  AlgorithmChoice choice_;
  int64_t step_ = 0;
  std::shared_ptr<LendableMemory> lendable_;
  std::unique_ptr<RankGroup> group_;
};

absl::Status Check(const AllReduceBenchOptions& options) {
  if (options.ranks < 1 || options.ranks > kMostRanks) {
    return absl::InvalidArgumentError(fmt::format("ranks: found {}, expected 1 to {}", options.ranks, kMostRanks));
  }
  for (const int64_t bytes : options.bytes) {
    if (!IsBenchSize(bytes)) {
      return absl::InvalidArgumentError(fmt::format("bytes: found {}, expected a multiple of 4 from 4 to {}", bytes, kMostBenchBytes));
    }
  }
  if (options.rounds < 0) return absl::InvalidArgumentError(fmt::format("rounds: found {}, expected 0 or more", options.rounds));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<AllReduceBenchResult> BenchAllReduce(const AllReduceBenchOptions& options) {
  TY_RETURN_IF_ERROR(Check(options));
  TY_ASSIGN_OR_RETURN(const ReservedPorts ports, ReservedPorts::Reserve(static_cast<size_t>(options.ranks)));
  std::vector<std::string> hosts;
  for (int i = 0; i < options.ranks; ++i) hosts.push_back(fmt::format("127.0.0.1:{}", ports[i]));
  ChildProcesses others;
  for (int rank = 1; rank < options.ranks; ++rank) {
    const auto run = [&] {
      const absl::Status status = BenchRank::Run(options, hosts, rank).status();
      if (!status.ok()) LogError("rank {}: {}", rank, std::string(status.message()));
      return status;
    };
    TY_RETURN_IF_ERROR(others.Start(run).status());
  }
  TY_ASSIGN_OR_RETURN(std::vector<AllReduceBenchRow> rows, BenchRank::Run(options, hosts, 0));
  TY_RETURN_IF_ERROR(others.Join());
  return AllReduceBenchResult{.options = options, .rows = std::move(rows)};
}

std::string AllReduceBenchJson(const AllReduceBenchResult& result) {
  nlohmann::ordered_json json = {{"ranks", result.options.ranks},
                                 {"algorithm", AlgorithmName(result.options.algorithm)},
                                 {"sharedMemory", result.options.shared_memory},
                                 {"rows", nlohmann::ordered_json::array()}};
  for (const AllReduceBenchRow& row : result.rows) {
    json["rows"].push_back({{"bytes", row.bytes},
                            {"rounds", row.rounds},
                            {"medianMicroseconds", row.median_microseconds},
                            {"bestMicroseconds", row.best_microseconds},
                            {"cpuMicroseconds", row.cpu_microseconds}});
  }
  return json.dump(2) + "\n";
}

std::string AllReduceBenchText(const AllReduceBenchResult& result) {
  std::string text = fmt::format("all-reduce of {} ranks, {}, {}\n{:>12} {:>12} {:>12} {:>14} {:>8}\n", result.options.ranks,
                                 AlgorithmName(result.options.algorithm), result.options.shared_memory ? "shared memory" : "gRPC", "bytes",
                                 "median us", "best us", "cpu us a rank", "rounds");
  for (const AllReduceBenchRow& row : result.rows) {
    text += fmt::format("{:>12} {:>12.0f} {:>12.0f} {:>14.0f} {:>8}\n", row.bytes, row.median_microseconds, row.best_microseconds,
                        row.cpu_microseconds, row.rounds);
  }
  return text;
}

}  // namespace trainyard::engine
