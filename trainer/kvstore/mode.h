// How parameter servers combine the workers' gradients.
#pragma once

#include <cstdint>
#include <string_view>

namespace trainyard::engine {

// kAsync: each push is applied at once. kSync: a round per step: one push of every worker that is
// training, summed in tree order (tree_order.h), divided by their number, applied once.
enum class KvMode : uint8_t { kSync, kAsync };

constexpr std::string_view KvModeName(KvMode mode) { return mode == KvMode::kSync ? "sync" : "async"; }

}  // namespace trainyard::engine
