// Counts of the classes that a model gave to the examples of each class, with precision, recall and
// F1.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace trainyard::engine {

// Of one class. Absent: the quotient would be 0 / 0.
struct ClassScore {
  int64_t support = 0;              // examples of the class
  int64_t predicted = 0;            // examples that the model gave the class to
  std::optional<double> precision;  // the share of `predicted` that are of the class
  std::optional<double> recall;     // the share of `support` that the model gave the class to
  std::optional<double> f1;         // their harmonic mean, 2 correct / (support + predicted)
};

// Means over the classes that have examples or were predicted; what is absent counts as 0. As
// scikit-learn's macro average.
struct MacroScore {
  double precision = 0;
  double recall = 0;
  double f1 = 0;
};

class ConfusionMatrix {
 public:
  // Cells are kept up to kMostClasses, counts of each class in any case. classes >= 1.
  static constexpr int kMostClasses = 1000;
  explicit ConfusionMatrix(int classes);

  // Both are in [0, classes()).
  void Add(int label, int predicted);

  int classes() const { return static_cast<int>(support_.size()); }
  int64_t total() const { return total_; }
  int64_t correct() const;
  bool has_cells() const { return !cells_.empty(); }
  // The examples of `label` that were called `predicted`; only where has_cells().
  int64_t cell(int label, int predicted) const;
  ClassScore Score(int label) const;
  MacroScore Macro() const;

 private:
  std::vector<int64_t> support_, predicted_, correct_;  // by class
  std::vector<int64_t> cells_;                          // [label][predicted]; empty: too many classes
  int64_t total_ = 0;
};

}  // namespace trainyard::engine
