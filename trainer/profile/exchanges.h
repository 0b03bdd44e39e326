// A gradient's way from a worker to its server and back, put together from what both wrote down.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "trainer/profile/replica_profile.h"

namespace trainyard::engine {

// All of one (worker, part, step). The pointers are into the profiles and never null.
struct Exchange {
  size_t worker = 0;  // index of the profile
  size_t server = 0;
  const Span* push = nullptr;     // the worker hands over the gradient
  const Span* receive = nullptr;  // the server takes it; the same as `sum` for the last one of a round
  const Span* sum = nullptr;      // the server makes the new values
  const Span* arrived = nullptr;  // the worker has them …
  const Span* pull = nullptr;     // … and takes them over
};

// Every exchange of which all is known, by worker, then in the order of the pushes.
std::vector<Exchange> FindExchanges(std::span<const ReplicaProfile> profiles);

}  // namespace trainyard::engine
