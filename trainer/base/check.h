// TY_CHECK: for what this program did wrong (a broken invariant), never for what the world did.
// Prints file, line and condition, then aborts.
#pragma once

#include <cstdio>
#include <cstdlib>

#define TY_CHECK(condition)                                                                  \
  do {                                                                                       \
    if (!(condition)) [[unlikely]] {                                                         \
      std::fprintf(stderr, "%s:%d: broken invariant: %s\n", __FILE__, __LINE__, #condition); \
      std::abort();                                                                          \
    }                                                                                        \
  } while (false)
