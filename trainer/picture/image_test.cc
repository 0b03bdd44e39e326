#include "trainer/picture/image.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trainyard::engine {
namespace {

using ::testing::HasSubstr;

TEST(CheckImageBounds, TakesTheLargestPictureAndNoLargerOne) {
  EXPECT_TRUE(CheckImageBounds("PNG", 2048, 16384).ok());
  EXPECT_TRUE(CheckImageBounds("PNG", 16384, 2048).ok());
  EXPECT_TRUE(CheckImageBounds("PNG", 1, 16384).ok());
  EXPECT_FALSE(CheckImageBounds("PNG", 1, 16385).ok());
  EXPECT_FALSE(CheckImageBounds("PNG", 16385, 1).ok());
  EXPECT_THAT(std::string(CheckImageBounds("JPEG", 2049, 16384).message()),
              HasSubstr("the JPEG has 2049 x 16384 pixels (height x width), at most 16384 a side and 33554432 in all are read"));
}

}  // namespace
}  // namespace trainyard::engine
