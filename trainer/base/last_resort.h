// The end of a process that ran out of memory or threads where nobody could make an error of it.
#pragma once

namespace trainyard::engine {

// From now on std::bad_alloc and a thread that cannot be started, where nothing catches them, print
// one line and end the process with `exit_code`. Every other exception ends it as before. Call it
// first in main.
void InstallLastResort(int exit_code);

}  // namespace trainyard::engine
