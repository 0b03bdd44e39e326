// Whether a sanitizer looks at this build. It takes ten times as long, and sees in the first steps
// of a training, or in some of many cases, what it would see in the others.
#pragma once

#include <absl/base/config.h>

namespace trainyard {

#if defined(ABSL_HAVE_ADDRESS_SANITIZER)
inline constexpr bool kAddressSanitized = true;
#else
inline constexpr bool kAddressSanitized = false;
#endif
#if defined(ABSL_HAVE_THREAD_SANITIZER)
inline constexpr bool kThreadSanitized = true;
#else
inline constexpr bool kThreadSanitized = false;
#endif
inline constexpr bool kSanitized = kAddressSanitized || kThreadSanitized;

}  // namespace trainyard
