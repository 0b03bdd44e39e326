// Measures whole training steps of a model: feed, forward, backward and optimizer, on made-up data.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "trainer/backend/backend.h"
#include "trainer/tensor/precision.h"

namespace trainyard::engine {

struct BenchOptions {
  std::string model = "lenet5";   // a preset
  std::string optimizer = "sgd";  // with its default options
  int64_t batch = 128;
  int threads = 1;  // 0: as many as the cgroup allows
  std::string isa = "auto";
  Precision precision = Precision::kFloat32;
  Backend* backend = nullptr;  // null: the cpu backend, made with threads, isa and precision
  double seconds = 3.0;        // to measure for, after as many steps of warm-up as take a tenth of it; at least 3 steps are measured
  bool roofline = false;       // measure the memory too: it takes 200 MB; of the cpu backend alone
};

// One node of the graph, or the optimizer over all parameters.
struct BenchLayer {
  std::string name;
  std::string op;
  double milliseconds = 0;       // the median over the steps
  double best_milliseconds = 0;  // the least: what a busy machine would show when idle
  double gflop = 0;              // floating-point operations, 10^9; of the optimizer none are counted
  double megabytes = 0;          // each input read once, each output written once
  double gflops = 0;             // of what it computes, per second of the median
};

struct BenchResult {
  BenchOptions options;
  std::string isa;
  int64_t steps = 0;
  int64_t items = 0;            // of a step: examples, or the words of all of them where each step of a sequence has a label
  std::string unit;             // what they are: "images", "examples", "words"
  double items_per_second = 0;  // items / the median step
  double milliseconds_per_step = 0;
  double best_milliseconds_per_step = 0;
  double cpu_milliseconds_per_step = 0;  // processor time of all threads, the median: another program's load does not stretch it
  double gflop_per_step = 0;
  double gflops = 0;       // per second of the median step
  double peak_gflops = 0;  // of one thread, measured before, between and after the steps; times threads; 0: not of the cpu backend
  double memory_gigabytes_per_second = 0;  // MeasureMemoryBandwidth before and after the steps, the better one; 0 without options.roofline
  double megabytes = 0;                    // arena and scratch
  int64_t max_rss_bytes = 0;
  std::vector<BenchLayer> layers;  // none on a device that works behind the caller
};

// InvalidArgument for an unknown model or optimizer, a batch below 1, or kernels that this machine
// cannot run.
absl::StatusOr<BenchResult> BenchStep(const BenchOptions& options);

// {model, optimizer, batch, threads, isa, precision, items, unit, itemsPerSecond,
// millisecondsPerStep, bestMillisecondsPerStep, cpuMillisecondsPerStep, gflopPerStep, gflops,
// peakGflops, megabytes, maxRssBytes, layers: [{name, op, milliseconds, bestMilliseconds, gflop,
// megabytes, gflops}]}, ended by a line end. With options.roofline also {memoryGigabytesPerSecond,
// roofline}, of roofline.h.
std::string BenchJson(const BenchResult& result);
// The same as a table for people, with options.roofline by kind of op.
std::string BenchText(const BenchResult& result);

}  // namespace trainyard::engine
