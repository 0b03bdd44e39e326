// What the tests of payloads share.
#pragma once

#include <span>
#include <vector>

#include "trainer/transport/payload.h"

namespace trainyard::engine {

inline std::vector<float> ValuesOf(const Payload& payload) {
  std::vector<float> values(payload.size() / sizeof(float));
  PayloadReader(payload).Read(std::as_writable_bytes(std::span(values)));
  return values;
}

}  // namespace trainyard::engine
