// What is done to results of a convolution while they are in a cache.
#pragma once

#include <algorithm>
#include <cstdint>

#include "absl/functional/function_ref.h"
#include "trainer/backend/cpu/kernels.h"
#include "trainer/base/thread_pool.h"

namespace trainyard::engine {

// Called once for every ConvForwardArgs::rows_behind rows of y of a panel, the last ones perhaps
// fewer, after they were stored: where it is possible, right after and on the thread that did.
// `call` counts the calls of a panel. Calls may come in any order and at the same time.
using BehindRows = absl::FunctionRef<void(int panel, int call, int thread)>;

// Of each panel.
inline int CallsOf(const ConvForwardArgs& args) { return (args.shape.out_h + args.rows_behind - 1) / args.rows_behind; }

// All calls, after all rows were stored.
inline void CallForAllRows(BehindRows behind, const ConvForwardArgs& args, ThreadPool& pool) {
  const int calls = CallsOf(args);
  pool.Run(int64_t{args.shape.panels} * calls, [&](int64_t begin, int64_t end, int thread) {
    for (int64_t i = begin; i < end; ++i) behind(static_cast<int>(i / calls), static_cast<int>(i % calls), thread);
  });
}

}  // namespace trainyard::engine
