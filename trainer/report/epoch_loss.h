// The loss of the epoch under way, as the report tells it at the epoch's end.
#pragma once

#include <cstdint>
#include <string>

namespace trainyard::engine {

// The mean over the examples of the steps so far: a small last batch counts as its examples do.
// Copyable.
class EpochLoss {
 public:
  // A step of another epoch than the one before begins a new mean.
  void Add(int64_t epoch, double loss, int64_t examples);

  bool empty() const { return examples_ == 0; }
  // NaN: there was no example.
  double Mean() const;

  // "EPOCH SUM EXAMPLES", from which a resumed training goes on; "": empty.
  std::string ToText() const;
  // Empty where the text is none of ToText's.
  static EpochLoss FromText(const std::string& text);

 private:
  int64_t epoch_ = 0;
  double sum_ = 0;
  int64_t examples_ = 0;
};

}  // namespace trainyard::engine
