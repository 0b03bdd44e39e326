// Measures what a parameter server costs (trainer/kvstore): how many bytes workers push and pull a
// second, and the server's processor time of a byte, beside the arithmetic alone.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace trainyard::engine {

struct ServerBenchOptions {
  int workers = 1;            // processes, 1 to 64, in step with each other
  int64_t bytes = 1'724'320;  // of the parameters, those of LeNet-5; 4 to 1 GiB
  std::string optimizer = "sgd";
  int64_t rounds = 0;  // behind a tenth as many to warm up; 0: 20 to 1000, fewer of more bytes
  bool shared_memory = true;
};

// A byte is a byte of a gradient that the server has taken and applied.
struct ServerBenchResult {
  ServerBenchOptions options;
  int64_t rounds = 0;
  double median_microseconds = 0;          // of a round, as worker 0 sees it: all gradients pushed, all values there
  double bytes_per_second = 0;             // pushed and pulled, by all workers, in the median round
  double server_nanoseconds_per_byte = 0;  // processor time of all of the server's threads
  double alone_nanoseconds_per_byte = 0;   // a copy of each gradient and one run of the optimizer, no more
  double ratio() const { return server_nanoseconds_per_byte / alone_nanoseconds_per_byte; }
};

// Starts server and other workers by fork(2), so it must be called before this process has threads.
// They end with it. InvalidArgument: options outside their ranges. Internal: wrong values.
absl::StatusOr<ServerBenchResult> BenchServer(const ServerBenchOptions& options);

// {workers, bytes, optimizer, sharedMemory, rounds, medianMicroseconds, bytesPerSecond,
// serverNanosecondsPerByte, aloneNanosecondsPerByte, ratio}, ended by a line end.
std::string ServerBenchJson(const ServerBenchResult& result);
// The same as a table for people.
std::string ServerBenchText(const ServerBenchResult& result);

}  // namespace trainyard::engine
