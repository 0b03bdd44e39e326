// Which server holds what: a pure function of the parameter list and the number of servers, so that
// every replica finds the same answer.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "trainer/tensor/parameter_set.h"

namespace trainyard::engine {

// A range of one tensor: the unit that is sent, locked and updated.
struct Part {
  int key = 0;
  int index = 0;  // among the parts of the tensor, from 0
  int server = 0;
  int64_t begin = 0;  // first element
  int64_t count = 0;  // elements

  friend bool operator==(const Part&, const Part&) = default;
};

struct PlacementOptions {
  int64_t split_elements = int64_t{1} << 20;  // tensors of at least this many are cut over all servers
  int64_t part_elements = int64_t{1} << 17;   // no part is longer
};

struct Placement {
  std::vector<Part> parts;        // by key, then index
  std::vector<int> first_of_key;  // parts of key k: [first_of_key[k], first_of_key[k + 1])
  std::vector<int64_t> bytes;     // by server
  uint64_t hash = 0;              // of specs, servers and parts: peers compare it before they start
};

// Largest first onto the least loaded server (ties: the lower key, the lower server); a tensor of
// >= split_elements is cut into one even share per server first. All cuts fall on multiples of 16
// elements. servers >= 1.
Placement PlaceParameters(std::span<const ParameterSpec> specs, int servers, const PlacementOptions& options = {});

}  // namespace trainyard::engine
