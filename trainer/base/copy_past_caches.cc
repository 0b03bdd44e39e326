#include "trainer/base/copy_past_caches.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "trainer/base/check.h"

#ifdef __SSE2__
#include <emmintrin.h>
#endif

namespace trainyard::engine {

void CopyPastCaches(std::span<const std::byte> from, std::span<std::byte> to) {
  TY_CHECK(from.size() <= to.size());
  if (from.empty()) return;
#ifdef __SSE2__
  // Stores of a whole line leave the processor as one.
  constexpr size_t kLine = 64;
  constexpr size_t kVector = sizeof(__m128i);
  const size_t beside = reinterpret_cast<uintptr_t>(to.data()) % kLine;
  const size_t head = std::min(beside == 0 ? 0 : kLine - beside, from.size());
  std::memcpy(to.data(), from.data(), head);
  size_t at = head;
  for (; at + kLine <= from.size(); at += kLine) {
    for (size_t vector = at; vector < at + kLine; vector += kVector) {
      const __m128i values = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from.data() + vector));
      _mm_stream_si128(reinterpret_cast<__m128i*>(to.data() + vector), values);
    }
  }
  std::memcpy(to.data() + at, from.data() + at, from.size() - at);
  _mm_sfence();  // before anything that tells others of the copy
#else
  std::memcpy(to.data(), from.data(), from.size());
#endif
}

}  // namespace trainyard::engine
