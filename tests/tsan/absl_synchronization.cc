// Debian's Abseil is not built with ThreadSanitizer, which therefore does not see that its locks
// order anything and calls every guarded access a race. In the tsan preset the linker's --wrap
// sends our calls of those functions through here, where the order is told. The build takes the
// list of names from this file (cmake/ThreadSanitizer.cmake); they are mangled names of the Abseil
// of Debian 12.
#include <sanitizer/tsan_interface.h>

#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"

// NOLINTBEGIN(bugprone-reserved-identifier, readability-identifier-naming): the names are the linker's

// While Abseil works, it may call conditions: those of the caller and, when a lock is given up,
// those of others that wait for it. It holds the lock then, which the annotations below do not say;
// so reads are not judged for so long (conditions only read).
extern "C" void AnnotateIgnoreReadsBegin(const char* file, int line);
extern "C" void AnnotateIgnoreReadsEnd(const char* file, int line);
struct UnjudgedReads {
  UnjudgedReads() { AnnotateIgnoreReadsBegin(__FILE__, __LINE__); }
  ~UnjudgedReads() { AnnotateIgnoreReadsEnd(__FILE__, __LINE__); }
};

// A function that ends up holding what it was called on.
#define WRAP_ACQUIRE(Result, name, Object, parameters, arguments) \
  extern "C" Result __real_##name parameters;                     \
  extern "C" Result __wrap_##name parameters {                    \
    struct After {                                                \
      const void* address;                                        \
      ~After() { __tsan_acquire(const_cast<void*>(address)); }    \
    } after{Object};                                              \
    const UnjudgedReads reads;                                    \
    return __real_##name arguments;                               \
  }

// A function that gives up what it was called on.
#define WRAP_RELEASE(name, Object, parameters, arguments) \
  extern "C" void __real_##name parameters;               \
  extern "C" void __wrap_##name parameters {              \
    __tsan_release(Object);                               \
    const UnjudgedReads reads;                            \
    __real_##name arguments;                              \
  }

// A function that gives it up for a while.
#define WRAP_WAIT(Result, name, Object, parameters, arguments) \
  extern "C" Result __real_##name parameters;                  \
  extern "C" Result __wrap_##name parameters {                 \
    struct After {                                             \
      void* address;                                           \
      ~After() { __tsan_acquire(address); }                    \
    } after{Object};                                           \
    __tsan_release(Object);                                    \
    const UnjudgedReads reads;                                 \
    return __real_##name arguments;                            \
  }

using absl::Condition;
using absl::CondVar;
using absl::Duration;
using absl::Mutex;
using absl::Notification;
using absl::Time;

WRAP_ACQUIRE(void, _ZN4absl7debian35Mutex4LockEv, mu, (Mutex * mu), (mu))
WRAP_ACQUIRE(bool, _ZN4absl7debian35Mutex7TryLockEv, mu, (Mutex * mu), (mu))
WRAP_ACQUIRE(void, _ZN4absl7debian35Mutex10ReaderLockEv, mu, (Mutex * mu), (mu))
WRAP_ACQUIRE(void, _ZN4absl7debian35Mutex8LockWhenERKNS0_9ConditionE, mu, (Mutex * mu, const Condition& c), (mu, c))
WRAP_RELEASE(_ZN4absl7debian35Mutex6UnlockEv, mu, (Mutex * mu), (mu))
WRAP_RELEASE(_ZN4absl7debian35Mutex12ReaderUnlockEv, mu, (Mutex * mu), (mu))
WRAP_WAIT(void, _ZN4absl7debian35Mutex5AwaitERKNS0_9ConditionE, mu, (Mutex * mu, const Condition& c), (mu, c))
WRAP_WAIT(bool, _ZN4absl7debian35Mutex16AwaitWithTimeoutERKNS0_9ConditionENS0_8DurationE, mu, (Mutex * mu, const Condition& c, Duration d),
          (mu, c, d))
WRAP_WAIT(bool, _ZN4absl7debian35Mutex17AwaitWithDeadlineERKNS0_9ConditionENS0_4TimeE, mu, (Mutex * mu, const Condition& c, Time t),
          (mu, c, t))
WRAP_WAIT(void, _ZN4absl7debian37CondVar4WaitEPNS0_5MutexE, mu, (CondVar * cv, Mutex* mu), (cv, mu))
WRAP_WAIT(bool, _ZN4absl7debian37CondVar15WaitWithTimeoutEPNS0_5MutexENS0_8DurationE, mu, (CondVar * cv, Mutex* mu, Duration d),
          (cv, mu, d))
WRAP_WAIT(bool, _ZN4absl7debian37CondVar16WaitWithDeadlineEPNS0_5MutexENS0_4TimeE, mu, (CondVar * cv, Mutex* mu, Time t), (cv, mu, t))
WRAP_RELEASE(_ZN4absl7debian312Notification6NotifyEv, n, (Notification * n), (n))
WRAP_ACQUIRE(void, _ZNK4absl7debian312Notification19WaitForNotificationEv, n, (const Notification* n), (n))
WRAP_ACQUIRE(bool, _ZNK4absl7debian312Notification30WaitForNotificationWithTimeoutENS0_8DurationE, n, (const Notification* n, Duration d),
             (n, d))
WRAP_ACQUIRE(bool, _ZNK4absl7debian312Notification31WaitForNotificationWithDeadlineENS0_4TimeE, n, (const Notification* n, Time t), (n, t))

// NOLINTEND(bugprone-reserved-identifier, readability-identifier-naming)
