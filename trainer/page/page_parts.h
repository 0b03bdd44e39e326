// The files that a page is made of. Their texts are compiled in (cmake/EmbeddedText.cmake).
#pragma once

#include <string_view>

namespace trainyard::engine {

std::string_view PageTemplate();
std::string_view PageStyle();
// The page's own script, in this order.
std::string_view DomScript();
std::string_view ChartsScript();
std::string_view RunScript();
std::string_view MistakesScript();
std::string_view MainScript();
// Chart.js, as Debian's libjs-chart.js has it. MIT licence; its head names the authors.
std::string_view ChartLibrary();

}  // namespace trainyard::engine
