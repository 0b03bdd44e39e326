// One set of examples, cut into a part for training and one for evaluation.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace trainyard::engine {

// Which examples of a set a split has.
enum class SetPart : uint8_t { kAll, kTraining, kEvaluation };

// A number that looks drawn by chance, of `seed` and `bytes` alone.
uint64_t SplitKey(uint64_t seed, std::string_view bytes);

// True for the examples of the evaluation. Of each group (class) they are those with the smallest
// keys: `fraction` of them, rounded, but never all. So each class has its share in both parts, and
// an example that is added moves few of the others. keys.size() == groups.size(); groups are
// at least 0.
std::vector<bool> EvaluationPart(std::span<const uint64_t> keys, std::span<const int32_t> groups, double fraction);

}  // namespace trainyard::engine
