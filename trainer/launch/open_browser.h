// Shows an address in the user's browser.
#pragma once

#include <string>

namespace trainyard::engine {

// By xdg-open, where the session has a display. Returns whether it was asked to; the caller prints
// the address in any case. The browser outlives this process and gets none of its signals.
bool OpenBrowser(const std::string& address);

}  // namespace trainyard::engine
