#include "trainer/tensor/parameter_set.h"

#include <gtest/gtest.h>

namespace trainyard::engine {
namespace {

ParameterSet TwoTensors() { return ParameterSet({{"dense/kernel", {3, 2}}, {"dense/bias", {2}}}); }

TEST(ParameterSet, FindsAParameterByNameAndNothingElse) {
  const ParameterSet set = TwoTensors();
  EXPECT_EQ(set.Find("dense/bias"), 1);
  EXPECT_EQ(set.Find("dense"), -1);
  EXPECT_EQ(set.elements(), 8);
}

TEST(ParameterSet, EveryTensorStartsAtACacheLine) {
  ParameterSet set = TwoTensors();
  for (int key = 0; key < set.size(); ++key) EXPECT_EQ(reinterpret_cast<uintptr_t>(set.values(key).data()) % kBufferAlignment, 0u);
}

TEST(ParameterSet, DigestFollowsValuesAndFingerprintOnlyTheModel) {
  ParameterSet a = TwoTensors();
  ParameterSet b = TwoTensors();
  EXPECT_EQ(a.Sha256Hex(), b.Sha256Hex());
  b.values(1)[1] = 1.0f;
  EXPECT_NE(a.Sha256Hex(), b.Sha256Hex());
  EXPECT_EQ(a.Fingerprint(), b.Fingerprint());
  EXPECT_NE(a.Fingerprint(), ParameterSet({{"dense/kernel", {2, 3}}, {"dense/bias", {2}}}).Fingerprint());
}

}  // namespace
}  // namespace trainyard::engine
