#include "trainer/base/clock.h"

#include <chrono>

#include "absl/time/clock.h"

namespace trainyard::engine {
namespace {

class SystemClock final : public Clock {
 public:
  absl::Time Now() override { return wall_at_start_ + absl::FromChrono(std::chrono::steady_clock::now() - start_); }
  absl::Time Wall() override { return absl::Now(); }

 private:
  const absl::Time wall_at_start_ = absl::Now();
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace

Clock& RealClock() {
  static SystemClock clock;
  return clock;
}

}  // namespace trainyard::engine
