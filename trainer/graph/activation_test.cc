// The table's promises of every activation.
#include "trainer/graph/activation.h"

#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <string>

#include "trainer/graph/op.h"

namespace trainyard::engine {
namespace {

// Not 0, where relu has a kink.
constexpr double kFirst = -6.05;
constexpr double kStep = 0.1;
constexpr int kPoints = 122;

TEST(ActivationTest, NoneFalls) {
  VisitActivations([]<Activation kActivation>() {
    using Row = ActivationRow<kActivation>;
    for (int i = 1; i < kPoints; ++i) {
      const double x = kFirst + i * kStep;
      EXPECT_GE(Row::Forward(x), Row::Forward(x - kStep))
          << Row::kName << " falls before " << x << ": max-pooling would not commute with it";
    }
  });
}

TEST(ActivationTest, TheSlopeOfEachEqualsNumericDifferences) {
  VisitActivations([]<Activation kActivation>() {
    using Row = ActivationRow<kActivation>;
    for (int i = 0; i < kPoints; ++i) {
      const double x = kFirst + i * kStep;
      const double numeric = (Row::Forward(x + 1e-5) - Row::Forward(x - 1e-5)) / 2e-5;
      EXPECT_NEAR(Row::Slope(Row::Forward(x)), numeric, 1e-8) << Row::kName << " at " << x;
    }
  });
}

TEST(ActivationTest, EachHasANameOfItsOwn) {
  std::set<std::string> names;
  VisitActivations([&]<Activation kActivation>() {
    const std::string name(ActivationName(kActivation));
    EXPECT_EQ(name, ActivationRow<kActivation>::kName);
    EXPECT_TRUE(names.insert(name).second) << name;
  });
  EXPECT_EQ(names.size(), static_cast<size_t>(kActivations));
}

TEST(ActivationTest, TheRecipeOfTheDocsNamesTheFilesToEdit) {
  std::ifstream page("docs/architecture.md");
  std::string row;
  while (std::getline(page, row) && !row.starts_with("| how is an activation added? |")) {
  }
  for (const std::string file : {"graph/activation.h", "backend/cpu/kernels/activations.h"}) {
    EXPECT_NE(row.find("`" + file + "`"), std::string::npos) << file;
    EXPECT_TRUE(std::ifstream("trainer/" + file).good()) << file;
  }
}

}  // namespace
}  // namespace trainyard::engine
