// A wait for others that lasts is told: in the log, and to the functions that show it.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "absl/functional/function_ref.h"
#include "absl/time/time.h"
#include "trainer/base/wait_notice.h"

namespace trainyard::engine {

// Gets "rank 1 waits, 12s: …" about once a look while a wait lasts, and "" when it is over.
using WaitTold = std::function<void(const std::string&)>;

// One wait. Not thread-safe. Time is what its caller says it is.
class LongWait {
 public:
  // `who` waits; `told` may be empty, and must outlive this object.
  LongWait(std::string_view who, absl::Time start, const WaitTold& told) : who_(who), told_(told), notice_(start, kLogPeriod) {}
  ~LongWait() { Over(); }
  LongWait(const LongWait&) = delete;
  LongWait& operator=(const LongWait&) = delete;

  // At every look: after kShownWait `what` says what is waited for, "": nothing worth telling.
  void Look(absl::Time now, absl::FunctionRef<std::string()> what);
  // Something came; the wait begins again.
  void Restart(absl::Time now);

 private:
  static constexpr absl::Duration kLogPeriod = absl::Seconds(30);

  void Over();

  const std::string who_;
  const WaitTold& told_;
  WaitNotice notice_;
  bool shown_ = false;
};

}  // namespace trainyard::engine
