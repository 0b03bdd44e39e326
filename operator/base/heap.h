// How the process treats its heap.
#pragma once

namespace trainyard::control {

// For a process that lives for months with a dozen threads. The heap has few arenas. Large buffers
// (a page of a list) go back to the system when they are freed. Call first in main.
void KeepHeapSmall();

}  // namespace trainyard::control
