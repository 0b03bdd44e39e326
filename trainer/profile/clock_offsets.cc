#include "trainer/profile/clock_offsets.h"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <map>

namespace trainyard::engine {
namespace {

constexpr int64_t kUnknown = std::numeric_limits<int64_t>::max();

// By how much a server's clock is ahead of a worker's.
struct Bounds {
  int64_t least = std::numeric_limits<int64_t>::min();
  int64_t most = std::numeric_limits<int64_t>::max();

  int64_t middle() const { return least + (most - least) / 2; }
  // Contradicting bounds (a clock was set, or drifts) are as uncertain as they are apart.
  int64_t uncertainty() const { return std::abs(most - least) / 2; }
};

}  // namespace

std::vector<ClockOffset> AlignClocks(std::span<const ReplicaProfile> profiles, std::span<const Exchange> exchanges) {
  std::map<std::pair<size_t, size_t>, Bounds> pairs;  // (worker, server)
  for (const Exchange& exchange : exchanges) {
    Bounds& bounds = pairs[{exchange.worker, exchange.server}];
    bounds.most = std::min(bounds.most, exchange.receive->start - exchange.push->start);
    bounds.least = std::max(bounds.least, exchange.sum->end - exchange.arrived->start);
  }
  std::erase_if(pairs, [](const auto& entry) { return std::abs(entry.second.middle()) > kMostOffset; });
  std::vector<ClockOffset> offsets(profiles.size());
  if (!offsets.empty()) offsets[0].known = true;
  while (true) {
    size_t next = 0;
    ClockOffset best{.known = false, .nanos = 0, .uncertainty = kUnknown};
    for (const auto& [pair, bounds] : pairs) {
      const auto [worker, server] = pair;
      if (offsets[worker].known == offsets[server].known) continue;
      const bool to_server = offsets[worker].known;
      const ClockOffset& from = offsets[to_server ? worker : server];
      const int64_t uncertainty = from.uncertainty + bounds.uncertainty();
      if (uncertainty >= best.uncertainty) continue;
      next = to_server ? server : worker;
      best = {.known = true, .nanos = from.nanos + (to_server ? -bounds.middle() : bounds.middle()), .uncertainty = uncertainty};
    }
    if (!best.known) return offsets;
    offsets[next] = best;
  }
}

}  // namespace trainyard::engine
