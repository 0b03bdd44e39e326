// The trace of a whole job for chrome://tracing and ui.perfetto.dev. Source: "Trace Event Format"
// by the Chromium project.
#pragma once

#include <span>
#include <string>

#include "trainer/profile/clock_offsets.h"
#include "trainer/profile/exchanges.h"

namespace trainyard::engine {

// A JSON array of events, one a line, in the order of their times, which count from the first one
// in microseconds. Every replica is a process with threads for steps, input, compute (operators
// within) and communication. A server has as many threads as worked at once. An arrow stands for
// each exchange: push → sum → pull. `offsets` is parallel to `profiles`, which `exchanges` point
// into.
std::string ChromeTrace(std::span<const ReplicaProfile> profiles, std::span<const Exchange> exchanges,
                        std::span<const ClockOffset> offsets);

}  // namespace trainyard::engine
