#include "trainer/profile/operator_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <string_view>
#include <tuple>

namespace trainyard::engine {
namespace {

using nlohmann::ordered_json;

constexpr int kBarCells = 20;
constexpr size_t kEveryRow = std::numeric_limits<size_t>::max();

std::vector<OperatorRow> Sorted(std::map<std::string, OperatorRow>& rows) {
  std::vector<OperatorRow> sorted;
  for (auto& [name, row] : rows) sorted.push_back(std::move(row));
  std::ranges::sort(sorted, {}, [](const OperatorRow& row) { return std::tuple(-row.nanos, row.name); });
  return sorted;
}

void Count(OperatorRow& row, const OperatorInfo& node, int64_t nanos) {
  ++row.calls;
  row.nanos += nanos;
  row.flops += static_cast<double>(node.flops);
  row.bytes += static_cast<double>(node.bytes);
}

ordered_json RowsJson(std::span<const OperatorRow> rows, size_t most) {
  ordered_json list = ordered_json::array();
  for (const OperatorRow& row : rows.first(std::min(most, rows.size()))) {
    list.push_back({{"name", row.name},
                    {"kind", row.kind},
                    {"calls", row.calls},
                    {"milliseconds", 1e-6 * static_cast<double>(row.nanos)},
                    {"stepMilliseconds", row.MillisecondsPerStep()},
                    {"share", row.Share()},
                    {"flopsPerSecond", row.FlopsPerSecond()},
                    {"bytesPerSecond", row.BytesPerSecond()},
                    {"flops", row.flops},
                    {"bytes", row.bytes}});
  }
  return list;
}

// Eighths of a cell, so that small shares show.
std::string Bar(double share) {
  constexpr std::string_view kEighths[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  const int eighths = static_cast<int>(std::lround(std::clamp(share, 0.0, 1.0) * kBarCells * 8));
  std::string bar;
  for (int i = 0; i < eighths / 8; ++i) bar += "█";
  bar += kEighths[eighths % 8];
  return bar + std::string(kBarCells - eighths / 8 - (eighths % 8 > 0 ? 1 : 0), ' ');
}

// As long as it is, or its end: names of nodes differ there.
std::string Shortened(const std::string& name, size_t most) {
  return name.size() <= most ? name : "…" + name.substr(name.size() - most + 1);
}

void AppendRows(std::string& text, std::string_view what, std::span<const OperatorRow> rows, size_t most) {
  if (most == 0 || rows.empty()) return;
  const std::span<const OperatorRow> shown = rows.first(std::min(most, rows.size()));
  size_t width = what.size();
  for (const OperatorRow& row : shown) width = std::max(width, std::min<size_t>(row.name.size(), 40));
  auto out = std::back_inserter(text);
  fmt::format_to(out, "  {:<{}}  {:>6}  {:<{}} {:>9} {:>7} {:>8} {:>8}\n", what, width, "share", "", kBarCells, "ms/step", "calls",
                 "GFLOP/s", "GB/s");
  for (const OperatorRow& row : shown) {
    fmt::format_to(out, "  {:<{}}  {:>5.1f}%  {} {:>9.3f} {:>7} {:>8.1f} {:>8.1f}\n", Shortened(row.name, 40), width, 100 * row.Share(),
                   Bar(row.Share()), row.MillisecondsPerStep(), row.calls, 1e-9 * row.FlopsPerSecond(), 1e-9 * row.BytesPerSecond());
  }
  if (shown.size() < rows.size()) fmt::format_to(out, "  and {} more\n", rows.size() - shown.size());
}

std::vector<OperatorRow> DeviceRows(const ReplicaProfile& profile) {
  std::vector<OperatorRow> rows(static_cast<size_t>(profile.devices()));
  for (size_t device = 0; device < rows.size(); ++device) {
    rows[device].name = fmt::format("{} device {}", profile.name(), device);
    rows[device].kind = "device";
  }
  return rows;
}

}  // namespace

OperatorTable MakeOperatorTable(std::span<const ReplicaProfile> profiles) {
  OperatorTable table;
  std::map<std::string, OperatorRow> kinds;
  std::map<std::string, OperatorRow> nodes;
  StepRange recorded = {.begin = std::numeric_limits<int64_t>::max(), .end = 0};
  int64_t device_steps = 0;
  int64_t device_nanos = 0;
  for (const ReplicaProfile& profile : profiles) {
    table.dropped += profile.dropped;
    if (profile.rank < 0) continue;
    ++table.workers;
    table.steps = profile.steps;
    std::vector<OperatorRow> devices = DeviceRows(profile);
    int64_t steps = 0;
    int64_t step_nanos = 0;
    for (const Span& span : profile.spans) {
      const int64_t nanos = span.end - span.start;
      if (span.kind == SpanKind::kStep) {
        ++steps;
        step_nanos += nanos;
        recorded.begin = std::min(recorded.begin, span.step);
        recorded.end = std::max(recorded.end, span.step + 1);
      }
      if (span.kind == SpanKind::kInput) table.input_nanos += nanos;
      if (span.kind == SpanKind::kCompute) table.compute_nanos += nanos;
      if (span.kind == SpanKind::kUpdate) table.update_nanos += nanos;
      if (span.kind != SpanKind::kNode) continue;
      const OperatorInfo& node = profile.operators[span.id];
      Count(devices[node.device], node, nanos);
      for (const auto& [rows, name] : {std::pair(&kinds, &node.kind), std::pair(&nodes, &node.name)}) {
        OperatorRow& row = (*rows)[*name];
        row.name = *name;
        row.kind = node.kind;
        Count(row, node, nanos);
      }
    }
    table.worker_steps += steps;
    table.step_nanos += step_nanos;
    device_steps += steps * std::ssize(devices);
    device_nanos += step_nanos * std::ssize(devices);
    if (devices.size() == 1) continue;
    for (OperatorRow& row : devices) {
      row.steps = steps;
      row.step_nanos = step_nanos;
      table.devices.push_back(std::move(row));
    }
  }
  for (std::map<std::string, OperatorRow>* const rows : {&kinds, &nodes}) {
    for (auto& [name, row] : *rows) {
      row.steps = device_steps;
      row.step_nanos = device_nanos;
    }
  }
  if (recorded.size() > 0) table.steps = recorded;
  table.kinds = Sorted(kinds);
  table.nodes = Sorted(nodes);
  return table;
}

ordered_json ToJson(const OperatorTable& table, size_t most_nodes) {
  return {{"steps", {table.steps.begin, table.steps.end}},
          {"workers", table.workers},
          {"workerSteps", table.worker_steps},
          {"stepMilliseconds", table.MillisecondsPerStep(table.step_nanos)},
          {"inputMilliseconds", table.MillisecondsPerStep(table.input_nanos)},
          {"computeMilliseconds", table.MillisecondsPerStep(table.compute_nanos)},
          {"updateMilliseconds", table.MillisecondsPerStep(table.update_nanos)},
          {"droppedSpans", table.dropped},
          {"devices", RowsJson(table.devices, kEveryRow)},
          {"operators", RowsJson(table.kinds, kEveryRow)},
          {"nodes", RowsJson(table.nodes, most_nodes)}};
}

std::string OperatorTableText(const OperatorTable& table, size_t most_kinds, size_t most_nodes) {
  std::string text =
      fmt::format("steps {}-{} of {} worker{}: {:.3f} ms a step: input {:.1f}%, compute {:.1f}%, update {:.1f}%\n", table.steps.begin,
                  table.steps.end - 1, table.workers, table.workers == 1 ? "" : "s", table.MillisecondsPerStep(table.step_nanos),
                  100 * table.Share(table.input_nanos), 100 * table.Share(table.compute_nanos), 100 * table.Share(table.update_nanos));
  if (table.dropped > 0) text += fmt::format("  {} events found no room: profile fewer steps\n", table.dropped);
  AppendRows(text, "device", table.devices, most_kinds);
  AppendRows(text, "operator", table.kinds, most_kinds);
  AppendRows(text, "node", table.nodes, most_nodes);
  return text;
}

}  // namespace trainyard::engine
