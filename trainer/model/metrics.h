// The metrics by which a model is judged.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "trainer/model/model_spec.h"

namespace trainyard::engine {

// A model over a whole data set.
struct ModelScore {
  double loss = 0;      // mean over the labels
  double accuracy = 0;  // classification: the share of labels that have the highest score
  int64_t examples = 0;
  int64_t labels = 0;                               // examples, times steps where each step has a label
  std::optional<double> perplexity = std::nullopt;  // exp(loss), of a stream of tokens
};

// "accuracy" (classification), "perplexity" (streams of tokens) and "loss", as reports, summaries
// and /progress name them.
std::map<std::string, double> MetricsOf(const ModelSpec& spec, const ModelScore& score);

}  // namespace trainyard::engine
