#include "trainer/report/epoch_loss.h"

#include <fmt/format.h>

#include <cmath>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"

namespace trainyard::engine {

void EpochLoss::Add(int64_t epoch, double loss, int64_t examples) {
  if (epoch != epoch_) *this = {};
  epoch_ = epoch;
  sum_ += loss * static_cast<double>(examples);
  examples_ += examples;
}

double EpochLoss::Mean() const { return sum_ / static_cast<double>(examples_); }

std::string EpochLoss::ToText() const { return empty() ? "" : fmt::format("{} {} {}", epoch_, sum_, examples_); }

EpochLoss EpochLoss::FromText(const std::string& text) {
  const std::vector<std::string> parts = absl::StrSplit(text, ' ');
  EpochLoss loss;
  if (parts.size() != 3 || !absl::SimpleAtoi(parts[0], &loss.epoch_) || !absl::SimpleAtod(parts[1], &loss.sum_) ||
      !absl::SimpleAtoi(parts[2], &loss.examples_) || loss.examples_ < 1 || !std::isfinite(loss.sum_)) {
    return {};
  }
  return loss;
}

}  // namespace trainyard::engine
