// What a person sees while a job runs: one line, redrawn on a terminal or printed now and then elsewhere. Pure.
#pragma once

#include <string>

#include "trainer/train/progress_server.h"

namespace trainyard::engine {

// " 42% ━━━━━━━━╸───────── step 1180/2815  epoch 3  loss 0.1320  14210 images/s  ETA 0:01:03", cut or filled to `columns` terminal cells.
std::string ProgressBar(const Progress& progress, int columns);

// "step 1180/2815 (42%), epoch 3, loss 0.1320, 14210 images/s, ETA 0:01:03"
std::string ProgressLine(const Progress& progress);

// "0:01:03"
std::string HoursMinutesSeconds(absl::Duration duration);

}  // namespace trainyard::engine
