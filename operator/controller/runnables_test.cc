#include "operator/controller/runnables.h"

#include <gtest/gtest.h>

namespace trainyard::control {
namespace {

class RunnablesTest : public testing::Test {
 protected:
  Runnable Part(const std::string& name, absl::Status status = absl::OkStatus()) {
    return {name,
            [this, name, status] {
              done_ += " +" + name;
              return status;
            },
            [this, name] { done_ += " -" + name; }};
  }
  std::string done_;
};

TEST_F(RunnablesTest, AreStartedInOrderAndStoppedOnceInTheOppositeOne) {
  {
    Runnables parts({Part("a"), Part("b"), Part("c")});
    ASSERT_TRUE(parts.Start().ok());
    parts.Stop();
  }
  EXPECT_EQ(done_, " +a +b +c -c -b -a");
}

TEST_F(RunnablesTest, WhenOneDoesNotStartTheOthersAreStoppedAndTheErrorNamesIt) {
  Runnables parts({Part("a"), Part("b", absl::UnavailableError("port 80 is taken")), Part("c")});
  EXPECT_EQ(parts.Start().message(), "b: port 80 is taken");
  EXPECT_EQ(done_, " +a +b -a");
}

}  // namespace
}  // namespace trainyard::control
