#include "trainer/page/page_html.h"

#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>

#include "absl/strings/escaping.h"
#include "trainer/base/file.h"
#include "trainer/base/sha256.h"
#include "trainer/base/status_macros.h"
#include "trainer/page/page_parts.h"
#include "trainer/page/run_reader.h"

namespace trainyard::engine {
namespace {

using nlohmann::ordered_json;

// `text` with another text in place of each of some characters.
std::string Replaced(std::string_view text, const std::map<char, std::string_view>& by) {
  std::string replaced;
  for (const char c : text) {
    const auto found = by.find(c);
    found == by.end() ? replaced += c : replaced += found->second;
  }
  return replaced;
}

std::string EscapeHtml(std::string_view text) {
  return Replaced(text, {{'&', "&amp;"}, {'<', "&lt;"}, {'>', "&gt;"}, {'"', "&quot;"}, {'\'', "&#39;"}});
}

// A source of the Content-Security-Policy (CSP Level 3, section 2.3.1): this text alone.
std::string HashSource(std::string_view text) {
  Sha256 digest;
  digest.Update(text);
  return fmt::format("'sha256-{}'", absl::Base64Escape(absl::HexStringToBytes(digest.HexDigest())));
}

std::string TitleOf(const ordered_json& data) {
  std::string title;
  for (const ordered_json& run : data.at("runs")) title += (title.empty() ? "" : ", ") + run.value("name", "");
  return title.empty() ? "Trainyard" : title;
}

std::string PageScript() { return fmt::format("{}{}{}{}{}", DomScript(), ChartsScript(), RunScript(), MistakesScript(), MainScript()); }

}  // namespace

std::string ScriptJson(const ordered_json& data) {
  const std::string text = data.dump(-1, ' ', /*ensure_ascii=*/true, ordered_json::error_handler_t::replace);
  return Replaced(text, {{'<', "\\u003c"}, {'>', "\\u003e"}, {'&', "\\u0026"}});
}

std::string PageHtml(const ordered_json& data) {
  const std::string script = PageScript();
  const std::string policy = fmt::format(
      "default-src 'none'; base-uri 'none'; form-action 'none'; connect-src 'self'; img-src data:; style-src {}; script-src {} {}",
      HashSource(PageStyle()), HashSource(ChartLibrary()), HashSource(script));
  return fmt::format(fmt::runtime(PageTemplate()), fmt::arg("policy", policy), fmt::arg("title", EscapeHtml(TitleOf(data))),
                     fmt::arg("style", PageStyle()), fmt::arg("data", ScriptJson(data)), fmt::arg("library", ChartLibrary()),
                     fmt::arg("script", script));
}

absl::Status WriteReportPage(const std::string& dir) {
  TY_ASSIGN_OR_RETURN(ordered_json run, RunReader(dir).Read());
  run["unfinished"] = !run.contains("report");
  return ReplaceFile(dir + "/report.html", PageHtml({{"runs", ordered_json::array({std::move(run)})}}));
}

}  // namespace trainyard::engine
