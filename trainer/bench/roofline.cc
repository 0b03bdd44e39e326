#include "trainer/bench/roofline.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

namespace trainyard::engine {

std::vector<RooflineRow> RooflineOf(const BenchResult& result) {
  std::vector<RooflineRow> rows;
  RooflineRow whole{.op = "step"};
  const auto add = [&](RooflineRow& row, const BenchLayer& layer) {
    ++row.nodes;
    row.milliseconds += layer.best_milliseconds;
    row.gflop += layer.gflop;
    row.megabytes += layer.megabytes;
    row.least_milliseconds += std::max(1e3 * layer.gflop / result.peak_gflops, layer.megabytes / result.memory_gigabytes_per_second);
  };
  for (const BenchLayer& layer : result.layers) {
    auto row = std::ranges::find(rows, layer.op, &RooflineRow::op);
    if (row == rows.end()) row = rows.insert(rows.end(), {.op = layer.op});
    add(*row, layer);
    add(whole, layer);
  }
  std::ranges::sort(rows, {}, [](const RooflineRow& row) { return std::pair(-row.milliseconds, row.op); });
  rows.push_back(std::move(whole));
  return rows;
}

nlohmann::ordered_json ToJson(const std::vector<RooflineRow>& rows) {
  nlohmann::ordered_json json = nlohmann::json::array();
  for (const RooflineRow& row : rows) {
    json.push_back({{"op", row.op},
                    {"nodes", row.nodes},
                    {"milliseconds", row.milliseconds},
                    {"gflop", row.gflop},
                    {"megabytes", row.megabytes},
                    {"flopPerByte", row.FlopPerByte()},
                    {"gflops", row.Gflops()},
                    {"gigabytesPerSecond", row.GigabytesPerSecond()},
                    {"shareOfRoof", row.ShareOfRoof()}});
  }
  return json;
}

std::string RooflineText(const std::vector<RooflineRow>& rows) {
  std::string text =
      "| op | nodes | ms | share of the step | MFLOP | MB | FLOP/byte | GFLOP/s | GB/s | share of the roof |\n"
      "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n";
  for (const RooflineRow& row : rows) {
    const double share = rows.back().milliseconds > 0 ? row.milliseconds / rows.back().milliseconds : 0;
    text += fmt::format("| {} | {} | {:.2f} | {:.0f} % | {:.1f} | {:.1f} | {:.1f} | {:.1f} | {:.1f} | {:.0f} % |\n", row.op, row.nodes,
                        row.milliseconds, 100 * share, 1e3 * row.gflop, row.megabytes, row.FlopPerByte(), row.Gflops(),
                        row.GigabytesPerSecond(), 100 * row.ShareOfRoof());
  }
  return text;
}

}  // namespace trainyard::engine
