// The trace of a whole job for chrome://tracing and ui.perfetto.dev. Source: "Trace Event Format" by the Chromium project.
#pragma once

#include <span>
#include <string>

#include "trainer/profile/clock_offsets.h"
#include "trainer/profile/exchanges.h"

namespace trainyard::engine {

// A JSON array of events, one a line, in the order of their times, which count from the first one in microseconds: a process for every
// replica with threads for steps, input, compute (operators within) and communication, for servers as many as worked at once; an arrow for
// each exchange: push → sum → pull. `offsets` is parallel to `profiles`, which `exchanges` point into.
std::string ChromeTrace(std::span<const ReplicaProfile> profiles, std::span<const Exchange> exchanges,
                        std::span<const ClockOffset> offsets);

}  // namespace trainyard::engine
