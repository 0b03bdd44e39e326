#include "trainer/cli/print.h"

#include <cstdio>

namespace trainyard::engine {

void Print(std::string_view text) { std::fwrite(text.data(), 1, text.size(), stdout); }

}  // namespace trainyard::engine
