// The line that shows a running job's progress, redrawn on a terminal or printed now and then
// elsewhere. Pure.
#pragma once

#include <string>

#include "trainer/report/progress.h"
#include "trainer/report/replica_report.h"

namespace trainyard::engine {

// The newest progress with what the chief's report says of the run's end.
Progress AtEnd(Progress newest, const ReplicaReport& chief);

// " 42% ━━━━━━━━╸───────── step 1180/2815  epoch 3  loss 0.1320  14210 images/s  ETA 0:01:03", filled to `columns` terminal cells; fields that do not fit are left out.
std::string ProgressBar(const Progress& progress, int columns);

// "step 1180/2815 (42%), epoch 3, loss 0.1320, 14210 images/s, ETA 0:01:03"
std::string ProgressLine(const Progress& progress);

// "epoch 3, step 1180, evaluation: accuracy 0.9712, loss 0.0931"
std::string EvaluationLine(const Evaluation& evaluation);

// "0:01:03"
std::string HoursMinutesSeconds(absl::Duration duration);

}  // namespace trainyard::engine
