#include "trainer/page/page_html.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "trainer/page/page_parts.h"

namespace trainyard::engine {
namespace {

using nlohmann::ordered_json;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kHostile = "</script><script>alert(1)</script><!-- \"'&\u2028\u2029]]>";

std::string PageOf(const std::string& name) { return PageHtml({{"runs", ordered_json::array({{{"name", name}}})}}); }

size_t Count(const std::string& text, std::string_view part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST(PageHtml, AHostileNameEndsNoScriptAndOpensNoTag) {
  const std::string page = PageOf(kHostile);
  EXPECT_EQ(Count(page, "<script"), 3U);  // the data, the library, our own
  EXPECT_EQ(Count(page, "</script>"), 3U);
  EXPECT_THAT(page, Not(HasSubstr("<!--")));
  EXPECT_THAT(page, HasSubstr("&lt;/script&gt;"));  // the title
  const size_t begin = page.find("id=\"data\">") + 10;
  const std::string block = page.substr(begin, page.find("</script>", begin) - begin);
  EXPECT_EQ(ordered_json::parse(block)["runs"][0]["name"], kHostile);
  EXPECT_THAT(block, Not(HasSubstr("\u2028")));
}

TEST(PageHtml, TextThatIsNoUtf8BecomesAPage) {
  EXPECT_THAT(PageOf("a\xff\xc0"
                     "b"),
              HasSubstr("</html>"));
}

TEST(PageHtml, AStringThatLooksLikeAPlaceIsNotFilled) { EXPECT_THAT(PageOf("{data}{script}"), HasSubstr("<title>{data}{script}</title>")); }

TEST(PageHtml, ThePolicyAllowsNothingFromElsewhereAndNoScriptByItsPlace) {
  const std::string page = PageOf("digits");
  const size_t begin = page.find("Content-Security-Policy");
  const std::string policy = page.substr(begin, page.find('>', begin) - begin);
  EXPECT_THAT(policy, HasSubstr("default-src 'none'"));
  EXPECT_THAT(policy, Not(HasSubstr("unsafe")));
  EXPECT_EQ(Count(policy, "'sha256-"), 3U);
  EXPECT_THAT(page.substr(0, page.find("id=\"data\"")), Not(HasSubstr("src=\"http")));
}

TEST(PageHtml, APageWithoutDataIsSmallerThanAQuarterOfAMegabyte) {
  EXPECT_LT(PageOf("digits").size(), size_t{250'000});
  EXPECT_THAT(std::string(ChartLibrary().substr(0, 300)), HasSubstr("MIT License"));
}

}  // namespace
}  // namespace trainyard::engine
