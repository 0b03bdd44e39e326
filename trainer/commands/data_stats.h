// What is in a data set: how many examples of which classes, and where their numbers lie.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "trainer/data/dataset.h"

namespace trainyard::engine {

// The numbers of one channel, as the model sees them without `normalize`: bytes are divided by 255.
struct ChannelStats {
  double mean = 0;
  double deviation = 0;  // over all n numbers, not n - 1
  double minimum = 0;
  double maximum = 0;
};

struct DataStats {
  std::string name;                    // of the files
  int64_t examples = 0;                // of text, its tokens
  Shape shape;                         // of an example
  int64_t vocabulary = 0;              // of text; else 0
  std::vector<int64_t> class_counts;   // by number; empty: no class for each example
  std::vector<ChannelStats> channels;  // along the last axis of images; one for other examples; none of text
  int64_t damaged = 0;                 // examples that cannot be read or have numbers that are not finite
  std::vector<std::string> errors;     // of the first of them
};

// Reads all examples, a few at a time. `classes` > 0: labels are class numbers below it. Damaged
// examples are counted and left out: they cannot be read, or have numbers that are not finite.
DataStats StatsOf(const Dataset& dataset, int classes);

// A table for people, and the same as JSON. `classes` are the names.
std::string StatsText(const std::string& split, const DataStats& stats, const std::vector<std::string>& classes);
nlohmann::ordered_json StatsJson(const DataStats& stats, const std::vector<std::string>& classes);

}  // namespace trainyard::engine
