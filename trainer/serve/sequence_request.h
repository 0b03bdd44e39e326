// What a request says of the sequence that it belongs to, as Triton's stateful models have it.
// https://github.com/kserve/open-inference-protocol (request parameters)
#pragma once

#include <string>

namespace trainyard::engine {

struct SequenceRequest {
  std::string id;      // a number as its digits
  bool start = false;  // begins it, or begins it again
  bool end = false;    // it is forgotten behind this request
};

inline constexpr size_t kMostSequenceIdBytes = 128;

}  // namespace trainyard::engine
