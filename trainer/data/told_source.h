// A read of a file that lasts is told in the log.
#pragma once

#include <memory>
#include <string>

#include "trainer/base/clock.h"
#include "trainer/data/byte_source.h"

namespace trainyard::engine {

// The bytes of `file`. After kShownWait (wait_notice.h), and then as often, a line says how far it
// is: "reads table.csv: 41% of 294 MiB". `clock` must outlive the source.
std::unique_ptr<ByteSource> Told(std::unique_ptr<ByteSource> file, std::string name, Clock& clock = RealClock());

}  // namespace trainyard::engine
