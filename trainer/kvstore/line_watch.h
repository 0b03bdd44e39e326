// Whether the servers of a synchronous job hold one state of the training, as one worker sees them.
// Pure.
//
// The chief fills all servers from one checkpoint, or from the start values: that begins a line, a
// random number that every server tells. Rounds move the parts of a line on, all of them by the
// same rounds. Where servers do not hold one line at one round, nobody can go on from their values.
// The chief then resets them all, which makes them empty, and fills them anew. That is a rollback.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "trainer/base/input_origin.h"

namespace trainyard::engine {

struct ServerView {
  bool up = false;        // connected, and it has told its state since the last reset that was sent
  bool ready = false;     // it has values
  int64_t filled_as = 0;  // chief: the line that it was sent and has not confirmed; 0: none
  int64_t line = 0;       // where ready: its line
  int64_t line_step = 0;  // and the step that the line began at
  InputOrigin origin = {};
  int64_t lowest = -1;  // the open rounds of its parts; -1: it holds none
  int64_t highest = -1;
  bool torn = false;  // a worker cannot go on from here
};

enum class LineVerdict {
  kWait,   // not every server has told
  kAdopt,  // all servers hold one line at one round
  kTorn,   // one line, but parts of different rounds, or a worker cannot go on: it must be begun anew
  kMixed,  // some servers are empty, or hold another line: all must be emptied
  kEmpty,  // all servers are empty: they are to be filled
};

struct LineView {
  LineVerdict verdict = LineVerdict::kWait;
  int64_t line = 0;       // kAdopt, kTorn
  int64_t line_step = 0;  // kAdopt
  InputOrigin origin = {};
  int64_t step = 0;  // kAdopt: the open round
};

// For a worker that has pushed nothing to the line yet, so that no round can go on without it.
// `refused`: a line that this worker cannot go on from, or 0.
LineView JudgeLine(std::span<const ServerView> servers, int64_t refused);

// Whether a worker that trains on `line` must go back: a server that is there has lost the line, or
// a worker cannot go on from it.
bool IsLost(std::span<const ServerView> servers, int64_t line);

}  // namespace trainyard::engine
