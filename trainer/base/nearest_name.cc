#include "trainer/base/nearest_name.h"

#include <algorithm>
#include <cctype>

namespace trainyard::engine {
namespace {

constexpr size_t kLongestName = 60;

// Lower case without '_' and '-', so that learning_rate is near to learningRate.
std::string Plain(std::string_view name) {
  std::string plain;
  for (const char c : name) {
    if (c != '_' && c != '-') plain.push_back(static_cast<char>(std::tolower(static_cast<unsigned char>(c))));
  }
  return plain;
}

// How many single characters must be inserted, deleted, replaced or swapped with their neighbour
// (Damerau 1964; optimal string alignment).
size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<std::vector<size_t>> distance(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) {
    for (size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        distance[i][j] = i + j;
        continue;
      }
      const bool equal = a[i - 1] == b[j - 1];
      distance[i][j] = std::min({distance[i - 1][j] + 1, distance[i][j - 1] + 1, distance[i - 1][j - 1] + (equal ? 0 : 1)});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) distance[i][j] = std::min(distance[i][j], distance[i - 2][j - 2] + 1);
    }
  }
  return distance[a.size()][b.size()];
}

}  // namespace

std::string_view NearestName(std::string_view name, const std::vector<std::string>& known) {
  if (name.size() > kLongestName) return {};
  const std::string plain = Plain(name);
  std::string_view nearest;
  size_t least = std::max<size_t>(1, plain.size() / 3) + 1;
  for (const std::string& candidate : known) {
    const size_t distance = EditDistance(plain, Plain(candidate));
    if (distance < least) {
      least = distance;
      nearest = candidate;
    }
  }
  return nearest;
}

}  // namespace trainyard::engine
