#pragma once

#include <cstdint>

namespace trainyard::engine {

// Steps [begin, end), counted from 0.
struct StepRange {
  int64_t begin = 0;
  int64_t end = 0;

  bool Contains(int64_t step) const { return begin <= step && step < end; }
  int64_t size() const { return end - begin; }
  friend bool operator==(const StepRange&, const StepRange&) = default;
};

}  // namespace trainyard::engine
