#include "operator/base/boxed_optional.h"

#include <gtest/gtest.h>

#include <string>

namespace trainyard::control {
namespace {

struct Large {
  std::string text;
  char room[1000] = {};
};

TEST(BoxedOptional, IsAnOptionalThatIsSmallWhileItIsEmpty) {
  BoxedOptional<Large> optional;
  EXPECT_FALSE(optional);
  EXPECT_LE(sizeof(optional), 2 * sizeof(void*));
  optional = Large{.text = "a"};
  ASSERT_TRUE(optional.has_value());
  EXPECT_EQ(optional->text, "a");
  const BoxedOptional<Large> copy = optional;
  optional = Large{.text = "b"};
  EXPECT_EQ((*copy).text, "a");
  optional = std::nullopt;
  EXPECT_FALSE(optional.has_value());
}

}  // namespace
}  // namespace trainyard::control
