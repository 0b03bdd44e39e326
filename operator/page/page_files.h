// The files that the page is made of. Their texts are compiled in (cmake/EmbeddedText.cmake).
#pragma once

#include <string_view>

namespace trainyard::control {

std::string_view PageHtml();
std::string_view PageStyle();
// The page's script, in this order.
std::string_view DomScript();
std::string_view CurveScript();
std::string_view ListScript();
std::string_view JobScript();
std::string_view MainScript();

}  // namespace trainyard::control
