#include "trainer/kvstore/line_watch.h"

#include <algorithm>

namespace trainyard::engine {

LineView JudgeLine(std::span<const ServerView> servers, int64_t refused) {
  LineView view;
  const auto line_of = [](const ServerView& server) { return server.ready ? server.line : server.filled_as; };
  if (!std::ranges::all_of(servers, &ServerView::up)) return view;
  const int64_t line = line_of(servers[0]);
  if (!std::ranges::all_of(servers, [&](const ServerView& server) { return line_of(server) == line; })) {
    view.verdict = LineVerdict::kMixed;
    return view;
  }
  if (line == 0) {
    view.verdict = LineVerdict::kEmpty;
    return view;
  }
  if (!std::ranges::all_of(servers, &ServerView::ready)) return view;
  view.line = line;
  view.line_step = servers[0].line_step;
  view.origin = servers[0].origin;
  int64_t lowest = -1;
  int64_t highest = -1;
  for (const ServerView& server : servers) {
    if (server.lowest < 0) continue;
    lowest = lowest < 0 ? server.lowest : std::min(lowest, server.lowest);
    highest = std::max(highest, server.highest);
  }
  view.step = lowest < 0 ? view.line_step : lowest;
  const bool torn = line == refused || lowest != highest || std::ranges::any_of(servers, &ServerView::torn);
  view.verdict = torn ? LineVerdict::kTorn : LineVerdict::kAdopt;
  return view;
}

bool IsLost(std::span<const ServerView> servers, int64_t line) {
  return std::ranges::any_of(
      servers, [line](const ServerView& server) { return server.up && (!server.ready || server.line != line || server.torn); });
}

}  // namespace trainyard::engine
