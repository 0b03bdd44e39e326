#include "operator/api/quantity.h"

#include <gtest/gtest.h>

namespace trainyard::control {
namespace {

TEST(Quantity, EveryFormOfKubernetesReadsBackAsTheSameAmount) {
  const std::pair<const char*, const char*> expected[] = {
      {"4", "4"},          {"500m", "500m"}, {"1.5", "1500m"},
      {"1500m", "1500m"},  {"2000m", "2"},   {"2Gi", "2Gi"},
      {"1.5Gi", "1536Mi"}, {"1e3", "1000"},  {"1E", "1000000000000000000"},
      {"12k", "12000"},    {"1E3", "1000"},  {"0", "0"},
      {"1n", "1m"},        {"2500u", "3m"},  {".5", "500m"},
      {"1.", "1"},         {"+3", "3"},      {"1048576Ki", "1Gi"},
  };
  for (const auto& [text, formatted] : expected) {
    const auto quantity = ParseQuantity(text);
    ASSERT_TRUE(quantity.has_value()) << text;
    EXPECT_EQ(FormatQuantity(*quantity), formatted) << text;
    EXPECT_EQ(ParseQuantity(formatted), quantity) << text;
  }
}

TEST(Quantity, LessThanAThousandthCountsAsOne) {
  EXPECT_EQ(ParseQuantity("0.00000000000000000000001e-18"), absl::uint128(1));
  EXPECT_EQ(ParseQuantity("0.00000000000000000000000e-18"), absl::uint128(0));
}

TEST(Quantity, TextThatIsNoQuantityIsRefused) {
  for (const char* text : {"", ".", "-1", "1.2.3", "Gi", "1gi", "1 Gi", "four", "1e", "1e99", "1e-", "9999999999999999999999999", "2E",
                           "1.e18Ki", "1e18k", "\xff"}) {
    EXPECT_FALSE(ParseQuantity(text).has_value()) << text;
  }
}

}  // namespace
}  // namespace trainyard::control
