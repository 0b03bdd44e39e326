#include "trainer/model/confusion_matrix.h"

#include <algorithm>
#include <numeric>

#include "trainer/base/check.h"

namespace trainyard::engine {
namespace {

std::optional<double> Quotient(int64_t part, int64_t whole) {
  if (whole == 0) return std::nullopt;
  return static_cast<double>(part) / static_cast<double>(whole);
}

}  // namespace

ConfusionMatrix::ConfusionMatrix(int classes) : support_(classes), predicted_(classes), correct_(classes) {
  TY_CHECK(classes >= 1);
  if (classes <= kMostClasses) cells_.resize(static_cast<size_t>(classes) * classes);
}

void ConfusionMatrix::Add(int label, int predicted) {
  TY_CHECK(label >= 0 && label < classes() && predicted >= 0 && predicted < classes());
  ++total_;
  ++support_[label];
  ++predicted_[predicted];
  if (label == predicted) ++correct_[label];
  if (has_cells()) ++cells_[static_cast<size_t>(label) * classes() + predicted];
}

int64_t ConfusionMatrix::correct() const { return std::accumulate(correct_.begin(), correct_.end(), int64_t{0}); }

int64_t ConfusionMatrix::cell(int label, int predicted) const {
  TY_CHECK(has_cells());
  return cells_[static_cast<size_t>(label) * classes() + predicted];
}

ClassScore ConfusionMatrix::Score(int label) const {
  return {.support = support_[label],
          .predicted = predicted_[label],
          .precision = Quotient(correct_[label], predicted_[label]),
          .recall = Quotient(correct_[label], support_[label]),
          .f1 = Quotient(2 * correct_[label], support_[label] + predicted_[label])};
}

MacroScore ConfusionMatrix::Macro() const {
  MacroScore sum;
  int present = 0;
  for (int label = 0; label < classes(); ++label) {
    const ClassScore score = Score(label);
    if (!score.f1) continue;
    ++present;
    sum.precision += score.precision.value_or(0);
    sum.recall += score.recall.value_or(0);
    sum.f1 += *score.f1;
  }
  const double count = std::max(1, present);
  return {.precision = sum.precision / count, .recall = sum.recall / count, .f1 = sum.f1 / count};
}

}  // namespace trainyard::engine
