// Standard output, as every command writes it.
#pragma once

#include <string_view>

namespace trainyard::engine {

// Adds the text to standard output. It throws nothing where that cannot be written, as fmt::print
// does: RunCommandLine sees stdout's mark of errors at the end and tells it.
void Print(std::string_view text);

}  // namespace trainyard::engine
