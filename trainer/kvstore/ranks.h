// The sender of a record, in WireHeader::sender.
#pragma once

#include <cstdint>

namespace trainyard::engine {

// A worker's rank is its index.
inline constexpr uint32_t kObserverRank = 0xffffffff;  // an evaluator: reads only
inline constexpr uint32_t kServerRank = 0x80000000;    // plus the server's index
inline constexpr int kObserver = -1;                   // KvClientOptions::worker of an evaluator

}  // namespace trainyard::engine
