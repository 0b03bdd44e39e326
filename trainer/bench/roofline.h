// A measured step under its roofline (Williams, Waterman and Patterson, "Roofline", 2009): the time
// of each kind of op beside the least that processor and memory allow.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "trainer/bench/bench_step.h"

namespace trainyard::engine {

// All nodes of one kind, or of a whole step.
struct RooflineRow {
  std::string op;
  int64_t nodes = 0;
  double milliseconds = 0;  // the least of each node, as peak and memory are the best of several runs
  double gflop = 0;
  double megabytes = 0;  // each input read once, each output written once
  // The sum over the nodes of what is longer: their operations at the peak, or their bytes at the
  // memory's speed.
  double least_milliseconds = 0;

  double FlopPerByte() const { return megabytes > 0 ? 1e3 * gflop / megabytes : 0; }
  double Gflops() const { return milliseconds > 0 ? 1e3 * gflop / milliseconds : 0; }
  double GigabytesPerSecond() const { return milliseconds > 0 ? megabytes / milliseconds : 0; }
  // Above 1 where values are in a cache.
  double ShareOfRoof() const { return milliseconds > 0 ? least_milliseconds / milliseconds : 0; }
};

// The kinds, the longest first; the last row is the whole step. `result` is of a bench with
// BenchOptions::roofline.
std::vector<RooflineRow> RooflineOf(const BenchResult& result);

// [{op, nodes, milliseconds, gflop, megabytes, flopPerByte, gflops, gigabytesPerSecond,
// shareOfRoof}]
nlohmann::ordered_json ToJson(const std::vector<RooflineRow>& rows);
// The same as a table for people, in Markdown.
std::string RooflineText(const std::vector<RooflineRow>& rows);

}  // namespace trainyard::engine
