// Linked into every program of the tsan preset. Debian's abseil is built without ThreadSanitizer, which therefore does not see that its
// mutexes order anything. These functions stand before the library's own (a program's symbols win over a shared library's), tell
// ThreadSanitizer and call the original. While a mutex is being given up, abseil evaluates the conditions of others, under the lock; those
// reads are left out.
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>

#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

extern "C" {
void __tsan_acquire(void* address);
void __tsan_release(void* address);
void AnnotateIgnoreReadsBegin(const char* file, int line);
void AnnotateIgnoreReadsEnd(const char* file, int line);
}

namespace {

template <typename Function>
Function* Original(Function* /*ours*/, const char* symbol) {
  void* found = dlsym(RTLD_NEXT, symbol);
  if (found == nullptr) {
    std::fprintf(stderr, "tsan_absl.cc: %s is not in any library: another version of abseil?\n", symbol);
    std::abort();
  }
  return reinterpret_cast<Function*>(found);
}

// Around everything that gives the mutex up, for a while or for good.
class GivingUp {
 public:
  explicit GivingUp(void* mutex) {
    __tsan_release(mutex);
    AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
  }
  ~GivingUp() { AnnotateIgnoreReadsEnd(__FILE__, __LINE__); }
  GivingUp(const GivingUp&) = delete;
  GivingUp& operator=(const GivingUp&) = delete;
};

}  // namespace

#define ABSL_MUTEX "_ZN4absl7debian35Mutex"
#define ABSL_CONDVAR "_ZN4absl7debian37CondVar"
#define CALL_ORIGINAL(name, symbol, ...)                 \
  static auto* const original = Original(&name, symbol); \
  return original(__VA_ARGS__)

using absl::Condition;
using absl::Duration;
using absl::Time;

extern "C" {

#define TAKES(name, symbol)                                                       \
  void name(void* mutex) asm(symbol);                                             \
  static void name##Original(void* mutex) { CALL_ORIGINAL(name, symbol, mutex); } \
  void name(void* mutex) {                                                        \
    name##Original(mutex);                                                        \
    __tsan_acquire(mutex);                                                        \
  }
#define TRIES(name, symbol)                                                       \
  bool name(void* mutex) asm(symbol);                                             \
  static bool name##Original(void* mutex) { CALL_ORIGINAL(name, symbol, mutex); } \
  bool name(void* mutex) {                                                        \
    const bool taken = name##Original(mutex);                                     \
    if (taken) __tsan_acquire(mutex);                                             \
    return taken;                                                                 \
  }
#define GIVES(name, symbol)                                                       \
  void name(void* mutex) asm(symbol);                                             \
  static void name##Original(void* mutex) { CALL_ORIGINAL(name, symbol, mutex); } \
  void name(void* mutex) {                                                        \
    const GivingUp giving_up(mutex);                                              \
    name##Original(mutex);                                                        \
  }
// Waiting gives the mutex up and takes it again; waiting to lock only takes it, but may run conditions on the way.
#define WAITS(name, symbol, type, ...)                                              \
  bool name(void* mutex, const Condition& condition, type limit) asm(symbol);       \
  static bool name##Original(void* mutex, const Condition& condition, type limit) { \
    CALL_ORIGINAL(name, symbol, mutex, condition, limit);                           \
  }                                                                                 \
  bool name(void* mutex, const Condition& condition, type limit) {                  \
    bool held = false;                                                              \
    {                                                                               \
      const GivingUp giving_up(mutex);                                              \
      held = name##Original(mutex, condition, limit);                               \
    }                                                                               \
    __tsan_acquire(mutex);                                                          \
    return held;                                                                    \
  }
#define WAITS_FOREVER(name, symbol)                                                                                      \
  void name(void* mutex, const Condition& condition) asm(symbol);                                                        \
  static void name##Original(void* mutex, const Condition& condition) { CALL_ORIGINAL(name, symbol, mutex, condition); } \
  void name(void* mutex, const Condition& condition) {                                                                   \
    {                                                                                                                    \
      const GivingUp giving_up(mutex);                                                                                   \
      name##Original(mutex, condition);                                                                                  \
    }                                                                                                                    \
    __tsan_acquire(mutex);                                                                                               \
  }

TAKES(TsanLock, ABSL_MUTEX "4LockEv")
TAKES(TsanReaderLock, ABSL_MUTEX "10ReaderLockEv")
TRIES(TsanTryLock, ABSL_MUTEX "7TryLockEv")
TRIES(TsanReaderTryLock, ABSL_MUTEX "13ReaderTryLockEv")
GIVES(TsanUnlock, ABSL_MUTEX "6UnlockEv")
GIVES(TsanReaderUnlock, ABSL_MUTEX "12ReaderUnlockEv")
WAITS_FOREVER(TsanAwait, ABSL_MUTEX "5AwaitERKNS0_9ConditionE")
WAITS_FOREVER(TsanLockWhen, ABSL_MUTEX "8LockWhenERKNS0_9ConditionE")
WAITS(TsanAwaitWithTimeout, ABSL_MUTEX "16AwaitWithTimeoutERKNS0_9ConditionENS0_8DurationE", Duration)
WAITS(TsanAwaitWithDeadline, ABSL_MUTEX "17AwaitWithDeadlineERKNS0_9ConditionENS0_4TimeE", Time)
WAITS(TsanLockWhenWithTimeout, ABSL_MUTEX "19LockWhenWithTimeoutERKNS0_9ConditionENS0_8DurationE", Duration)
WAITS(TsanLockWhenWithDeadline, ABSL_MUTEX "20LockWhenWithDeadlineERKNS0_9ConditionENS0_4TimeE", Time)

#define CONDVAR_WAITS(name, symbol, result, limit_type, limit)                                                                       \
  result name(void* condvar, void* mutex, limit_type limit) asm(symbol);                                                             \
  static result name##Original(void* condvar, void* mutex, limit_type limit) { CALL_ORIGINAL(name, symbol, condvar, mutex, limit); } \
  result name(void* condvar, void* mutex, limit_type limit) {                                                                        \
    result timed_out{};                                                                                                              \
    {                                                                                                                                \
      const GivingUp giving_up(mutex);                                                                                               \
      timed_out = name##Original(condvar, mutex, limit);                                                                             \
    }                                                                                                                                \
    __tsan_acquire(mutex);                                                                                                           \
    return timed_out;                                                                                                                \
  }
CONDVAR_WAITS(TsanWaitWithTimeout, ABSL_CONDVAR "15WaitWithTimeoutEPNS0_5MutexENS0_8DurationE", bool, Duration, limit)
CONDVAR_WAITS(TsanWaitWithDeadline, ABSL_CONDVAR "16WaitWithDeadlineEPNS0_5MutexENS0_4TimeE", bool, Time, limit)
void TsanWait(void* condvar, void* mutex) asm(ABSL_CONDVAR "4WaitEPNS0_5MutexE");
static void TsanWaitOriginal(void* condvar, void* mutex) { CALL_ORIGINAL(TsanWait, ABSL_CONDVAR "4WaitEPNS0_5MutexE", condvar, mutex); }
void TsanWait(void* condvar, void* mutex) {
  {
    const GivingUp giving_up(mutex);
    TsanWaitOriginal(condvar, mutex);
  }
  __tsan_acquire(mutex);
}

}  // extern "C"
