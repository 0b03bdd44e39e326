// The width of a vector of the cpu backend: the samples of a panel.
#pragma once

namespace trainyard::engine {

inline constexpr int kLanes = 16;

}  // namespace trainyard::engine
