// Any bytes as a replica's profile: refused, or good for everything that is made of profiles.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "trainer/profile/chrome_trace.h"
#include "trainer/profile/operator_table.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace trainyard::engine;  // NOLINT(google-build-using-namespace)
  const auto profile = ParseReplicaProfile({reinterpret_cast<const char*>(data), size}, "input");
  if (!profile.ok()) return 0;
  // Twice, as worker and as server, so that exchanges are found.
  std::vector<ReplicaProfile> profiles = {*profile, *profile};
  profiles[0].rank = 0;
  const std::vector<Exchange> exchanges = FindExchanges(profiles);
  ChromeTrace(profiles, exchanges, AlignClocks(profiles, exchanges));
  OperatorTableText(MakeOperatorTable(profiles), 5, 5);
  return 0;
}
