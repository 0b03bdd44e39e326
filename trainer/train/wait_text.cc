#include "trainer/train/wait_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <vector>

#include "absl/strings/str_join.h"
#include "trainer/job/replica_identity.h"

namespace trainyard::engine {
namespace {

constexpr size_t kMostNames = 4;  // of many workers the first ones are named

std::string Names(std::span<const int> ranks, bool own_chief) {
  std::vector<std::string> names;
  for (const int rank : ranks.first(std::min(ranks.size(), kMostNames))) {
    names.push_back(TrainerName(rank, own_chief));
  }
  const std::string text = absl::StrJoin(names, ", ");
  return ranks.size() > kMostNames ? fmt::format("{} and {} more", text, ranks.size() - kMostNames) : text;
}

}  // namespace

std::string WaitText(const std::optional<KvOpenRound>& round, bool own_chief) {
  if (!round || round->age < kShownWait || round->missing.empty()) return "";
  return fmt::format("{} {} for {} at step {}, {} s", Names(round->waiting, own_chief), round->waiting.size() == 1 ? "waits" : "wait",
                     Names(round->missing, own_chief), round->step, absl::ToInt64Seconds(round->age));
}

}  // namespace trainyard::engine
