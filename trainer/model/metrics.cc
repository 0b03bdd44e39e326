#include "trainer/model/metrics.h"

namespace trainyard::engine {

std::map<std::string, double> MetricsOf(const ModelSpec& spec, const ModelScore& score) {
  std::map<std::string, double> metrics = {{"loss", score.loss}};
  if (spec.loss == Loss::kSoftmaxCrossEntropy) metrics["accuracy"] = score.accuracy;
  if (score.perplexity) metrics["perplexity"] = *score.perplexity;
  return metrics;
}

}  // namespace trainyard::engine
