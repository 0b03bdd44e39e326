#include "trainer/train/choose_precision.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "trainer/backend/executor.h"
#include "trainer/backend/made_up_feeds.h"
#include "trainer/base/clock.h"
#include "trainer/base/status_macros.h"
#include "trainer/model/build_graph.h"
#include "trainer/model/initializer.h"

namespace trainyard::engine {
namespace {

constexpr double kWorthIt = 0.95;  // of float32's step
constexpr int kTurns = 2;
constexpr int kMostSteps = 20;  // of a turn
constexpr absl::Duration kTurnTime = absl::Milliseconds(500);

// The shortest step of a turn.
absl::StatusOr<double> MeasureStep(const TrainingConfig& config, Backend& backend, const std::function<bool()>& stop) {
  TY_ASSIGN_OR_RETURN(Graph graph, BuildTrainingGraph(config.model, config.batch_size));
  TY_ASSIGN_OR_RETURN(const std::unique_ptr<Executor> executor, Executor::Create(std::move(graph), backend));
  const Graph& g = executor->graph();
  ParameterSet parameters(std::vector<ParameterSpec>(g.parameters().begin(), g.parameters().end()));
  ParameterSet gradients(std::vector<ParameterSpec>(g.parameters().begin(), g.parameters().end()));
  ParameterSet state({g.states().begin(), g.states().end()});
  InitializeParameters(config.model, config.seed, parameters);
  const MadeUpFeeds feeds(g);
  StepContext step{.seed = config.seed};
  double shortest = std::numeric_limits<double>::max();
  absl::Time begin = absl::InfinitePast();
  for (int done = 0; done <= kMostSteps; ++done, ++step.step) {
    const absl::Time start = RealClock().Now();
    if (done == 1) begin = start;
    if (done > 1 && (start - begin > kTurnTime || stop())) break;
    TY_RETURN_IF_ERROR(executor->Run(step, feeds.feeds(), parameters, &gradients, nullptr, &state));
    if (done > 0) shortest = std::min(shortest, absl::ToDoubleSeconds(RealClock().Now() - start));  // the first one packs and warms up
  }
  return shortest;
}

}  // namespace

PrecisionChoice DecidePrecision(const PrecisionTrial& float32, const PrecisionTrial& bfloat16) {
  const bool worth_it = bfloat16.seconds < kWorthIt * float32.seconds;
  return {.precision = worth_it ? Precision::kBfloat16 : Precision::kFloat32,
          .reason = fmt::format("forward and backward take {:.3g} ms in bfloat16 by {}, {:.3g} ms in float32 by {}", 1e3 * bfloat16.seconds,
                                bfloat16.kernels, 1e3 * float32.seconds, float32.kernels)};
}

absl::StatusOr<PrecisionChoice> ChoosePrecision(const TrainingConfig& config, const BackendOfPrecision& make_backend,
                                                const std::function<bool()>& stop) {
  if (config.precision) return PrecisionChoice{.precision = *config.precision, .reason = ""};
  TY_ASSIGN_OR_RETURN(const std::unique_ptr<Backend> float32, make_backend(Precision::kFloat32));
  if (!float32->uses_host_memory()) {
    return PrecisionChoice{.precision = Precision::kTf32,
                           .reason = fmt::format("{} multiplies tf32 faster, and all values stay float32", float32->kernels())};
  }
  TY_ASSIGN_OR_RETURN(const std::unique_ptr<Backend> bfloat16, make_backend(Precision::kBfloat16));
  if (float32->kernels() == bfloat16->kernels()) {
    return PrecisionChoice{.precision = Precision::kFloat32,
                           .reason = fmt::format("this processor has no kernels for bfloat16, only {}", float32->kernels())};
  }
  PrecisionTrial full{.kernels = std::string(float32->kernels()), .seconds = std::numeric_limits<double>::max()};
  PrecisionTrial half{.kernels = std::string(bfloat16->kernels()), .seconds = std::numeric_limits<double>::max()};
  for (int turn = 0; turn < kTurns; ++turn) {
    TY_ASSIGN_OR_RETURN(const double full_seconds, MeasureStep(config, *float32, stop));
    TY_ASSIGN_OR_RETURN(const double half_seconds, MeasureStep(config, *bfloat16, stop));
    full.seconds = std::min(full.seconds, full_seconds);
    half.seconds = std::min(half.seconds, half_seconds);
  }
  return DecidePrecision(full, half);
}

}  // namespace trainyard::engine
