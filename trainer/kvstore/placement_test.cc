#include "trainer/kvstore/placement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trainer/kvstore/part_names.h"

namespace trainyard::engine {
namespace {

using ::testing::ElementsAre;

std::vector<ParameterSpec> Specs(std::vector<int64_t> sizes) {
  std::vector<ParameterSpec> specs;
  for (size_t i = 0; i < sizes.size(); ++i)
    specs.push_back({.name = "layer" + std::to_string(i), .shape = Shape({sizes[i]}), .trainable = true});
  return specs;
}

std::vector<int> ServersOf(const Placement& placement) {
  std::vector<int> servers;
  for (const Part& part : placement.parts) servers.push_back(part.server);
  return servers;
}

TEST(Placement, LargestGoesFirstToTheLeastLoadedServer) {
  struct Case {
    std::vector<int64_t> sizes;
    int servers;
    std::vector<int> expected;
    std::vector<int64_t> elements;
  };
  const Case cases[] = {
      {{5, 10, 20}, 1, {0, 0, 0}, {35}},
      {{5, 10, 20}, 2, {1, 1, 0}, {20, 15}},
      {{10, 10, 10}, 3, {0, 1, 2}, {10, 10, 10}},
      {{1, 8, 7, 6, 5}, 2, {0, 0, 1, 1, 0}, {14, 13}},
      {{3}, 3, {0}, {3, 0, 0}},
      {{}, 2, {}, {0, 0}},
      {{0, 4}, 2, {1, 0}, {4, 0}},
  };
  for (const Case& test : cases) {
    const Placement placement = PlaceParameters(Specs(test.sizes), test.servers);
    EXPECT_EQ(ServersOf(placement), test.expected);
    std::vector<int64_t> bytes = test.elements;
    for (int64_t& value : bytes) value *= 4;
    EXPECT_EQ(placement.bytes, bytes);
  }
}

TEST(Placement, ABigTensorIsCutOverAllServersAtCacheLines) {
  const Placement placement = PlaceParameters(Specs({100, 7}), 3, {.split_elements = 100, .part_elements = 32});
  EXPECT_THAT(placement.parts, ElementsAre(Part{0, 0, 0, 0, 32}, Part{0, 1, 0, 32, 16}, Part{0, 2, 1, 48, 32}, Part{0, 3, 1, 80, 16},
                                           Part{0, 4, 2, 96, 4}, Part{1, 0, 2, 0, 7}));
  EXPECT_THAT(placement.first_of_key, ElementsAre(0, 5, 6));
  EXPECT_THAT(placement.bytes, ElementsAre(48 * 4, 48 * 4, 11 * 4));
}

TEST(Placement, ServersShareABigTensorOfWholeCacheLinesEvenly) {
  const Placement placement = PlaceParameters(Specs({4 * 48}), 4, {.split_elements = 1});
  EXPECT_THAT(placement.bytes, ElementsAre(48 * 4, 48 * 4, 48 * 4, 48 * 4));
}

TEST(Placement, PartsCoverEveryTensorOnceForAnyNumberOfServers) {
  const std::vector<ParameterSpec> specs = Specs({500, 20, 1'225'000, 500, 5'000, 10, 25'000, 50, 3'000'000});
  for (int servers = 1; servers <= 7; ++servers) {
    const Placement placement = PlaceParameters(specs, servers);
    int64_t total = 0;
    for (size_t key = 0; key < specs.size(); ++key) {
      int64_t next = 0;
      for (int i = placement.first_of_key[key]; i < placement.first_of_key[key + 1]; ++i) {
        const Part& part = placement.parts[i];
        EXPECT_EQ(part.key, static_cast<int>(key));
        EXPECT_EQ(part.index, i - placement.first_of_key[key]);
        EXPECT_EQ(part.begin, next);
        EXPECT_EQ(part.begin % 16, 0);
        EXPECT_LE(part.count, int64_t{1} << 17);
        EXPECT_LT(part.server, servers);
        next += part.count;
      }
      EXPECT_EQ(next, specs[key].shape.elements());
      total += next;
    }
    const auto [least, most] = std::ranges::minmax(placement.bytes);
    EXPECT_LT(most - least, total * 4 / 20 + 1) << servers;
  }
}

TEST(Placement, TheHashTellsModelsServersAndCutsApart) {
  const uint64_t hash = PlaceParameters(Specs({5, 10}), 2).hash;
  EXPECT_EQ(PlaceParameters(Specs({5, 10}), 2).hash, hash);
  EXPECT_NE(PlaceParameters(Specs({5, 11}), 2).hash, hash);
  EXPECT_NE(PlaceParameters(Specs({5, 10}), 1).hash, hash);
  EXPECT_NE(PlaceParameters(Specs({5, 100}), 1, {.part_elements = 32}).hash, PlaceParameters(Specs({5, 100}), 1).hash);
}

TEST(PartNames, TellThePartsOfOneTensorApart) {
  const std::vector<ParameterSpec> specs = Specs({100, 3'000'000});
  const std::vector<std::string> names = PartNames(specs, 2);
  EXPECT_EQ(names.size(), PlaceParameters(specs, 2).parts.size());
  EXPECT_EQ(names[0], specs[0].name);
  EXPECT_EQ(names[1], specs[1].name + "[0]");
  EXPECT_EQ(names[2], specs[1].name + "[1]");
  EXPECT_TRUE(PartNames(specs, 0).empty());
}

}  // namespace
}  // namespace trainyard::engine
