// A short wait that spins before it sleeps. To wake a thread takes some 50 us in a virtual machine,
// more than many a kernel runs.
#pragma once

#include <chrono>

namespace trainyard::engine {

// How long the next wait of one kind spins. It follows the waits before: where most were short it
// is kMost, where they were long it falls to nothing, so that a thread which waits for one without
// a core gives up its own.
class SpinBudget {
 public:
  static constexpr std::chrono::nanoseconds kMost = std::chrono::microseconds(100);
  // A wait that would have ended soon, though the thread slept.
  static constexpr std::chrono::nanoseconds kShort = 2 * kMost;

  std::chrono::nanoseconds now() const { return now_; }
  // A wait has taken so long altogether.
  void Waited(std::chrono::nanoseconds total) {
    if (total > kShort) {
      now_ = now_ > kLeast ? now_ / 2 : std::chrono::nanoseconds(0);
    } else {
      now_ = now_ < kLeast ? kLeast : (now_ < kMost / 2 ? 2 * now_ : kMost);
    }
  }

 private:
  static constexpr std::chrono::nanoseconds kLeast = std::chrono::microseconds(5);
  std::chrono::nanoseconds now_ = kMost;
};

// Tells the processor that the thread spins.
inline void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Spins until ready() or for the budget, then calls sleep(), which returns once ready() is true.
template <typename Ready, typename Sleep>
void SpinThenSleep(SpinBudget& budget, const Ready& ready, const Sleep& sleep) {
  using Clock = std::chrono::steady_clock;
  if (ready()) return;
  const Clock::time_point start = Clock::now();
  const Clock::time_point end = start + budget.now();
  bool is_ready = false;
  while (!is_ready && Clock::now() < end) {
    for (int i = 0; i < 16 && !is_ready; ++i) {
      Pause();
      is_ready = ready();
    }
  }
  if (!is_ready) sleep();
  budget.Waited(Clock::now() - start);
}

}  // namespace trainyard::engine
