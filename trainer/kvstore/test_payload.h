// Helpers that the tests of payloads share.
#pragma once

#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "trainer/transport/payload.h"

namespace trainyard::engine {

inline Payload FloatPayload(std::vector<float> values) {
  auto owner = std::make_shared<const std::vector<float>>(std::move(values));
  const std::span<const std::byte> bytes = std::as_bytes(std::span(*owner));
  return {bytes, std::move(owner)};
}

inline std::vector<float> ValuesOf(const Payload& payload) {
  std::vector<float> values(payload.size() / sizeof(float));
  PayloadReader(payload).Read(std::as_writable_bytes(std::span(values)));
  return values;
}

}  // namespace trainyard::engine
