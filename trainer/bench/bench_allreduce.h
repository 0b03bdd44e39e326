// Measures the sum of a vector over processes of this machine, as training does it
// (trainer/collectives).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "trainer/collectives/schedule.h"

namespace trainyard::engine {

struct AllReduceBenchOptions {
  int ranks = 2;                                               // processes, 1 to 64
  std::vector<int64_t> bytes = {64 << 10, 1 << 20, 16 << 20};  // of the vector of floats; each 4 to 1 GiB
  int64_t rounds = 0;  // of each size, behind a tenth as many to warm up; 0: 20 to 1000, fewer of more bytes
  AllReduceAlgorithm algorithm = AllReduceAlgorithm::kAuto;
  bool shared_memory = true;
};

struct AllReduceBenchRow {
  int64_t bytes = 0;
  int64_t rounds = 0;
  double median_microseconds = 0;  // of a round, as rank 0 sees it
  double best_microseconds = 0;
  double cpu_microseconds = 0;  // of rank 0's threads, a round
};

struct AllReduceBenchResult {
  AllReduceBenchOptions options;
  std::vector<AllReduceBenchRow> rows;
};

// Starts the other ranks by fork(2), so it must be called before this process has threads. They end
// with it. InvalidArgument: options outside their ranges. Internal: a wrong sum.
absl::StatusOr<AllReduceBenchResult> BenchAllReduce(const AllReduceBenchOptions& options);

// {ranks, algorithm, sharedMemory, rows: [{bytes, rounds, medianMicroseconds, bestMicroseconds,
// cpuMicroseconds}]}, ended by a line end.
std::string AllReduceBenchJson(const AllReduceBenchResult& result);
// The same as a table for people.
std::string AllReduceBenchText(const AllReduceBenchResult& result);

}  // namespace trainyard::engine
