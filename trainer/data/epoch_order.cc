#include "trainer/data/epoch_order.h"

#include <algorithm>
#include <deque>
#include <numeric>
#include <utility>

#include "trainer/base/check.h"
#include "trainer/data/random.h"

namespace trainyard::engine {
namespace {

// Keeps the order of examples apart from other uses of the job's seed.
constexpr uint64_t kOrderStream = 0x6f72646572;

struct Range {
  int64_t begin = 0;
  int64_t end = 0;
};

// The parts of files that lie within [begin, end).
std::deque<Range> PartsWithin(const std::vector<int64_t>& files, int64_t begin, int64_t end) {
  std::deque<Range> parts;
  int64_t first = 0;
  for (const int64_t examples : files) {
    const Range part{std::max(begin, first), std::min(end, first + examples)};
    if (part.begin < part.end) parts.push_back(part);
    first += examples;
  }
  return parts;
}

void Interleave(std::deque<Range> waiting, const InterleaveConfig& config, std::vector<int64_t>& order) {
  std::vector<Range> open;
  while (static_cast<int64_t>(open.size()) < config.files && !waiting.empty()) {
    open.push_back(waiting.front());
    waiting.pop_front();
  }
  order.clear();
  for (size_t turn = 0; !open.empty();) {
    Range& file = open[turn];
    for (int64_t i = 0; i < config.block && file.begin < file.end; ++i) order.push_back(file.begin++);
    if (file.begin < file.end) {
      ++turn;
    } else if (!waiting.empty()) {
      file = waiting.front();
      waiting.pop_front();
      ++turn;
    } else {
      open.erase(open.begin() + static_cast<std::ptrdiff_t>(turn));
    }
    if (turn >= open.size()) turn = 0;
  }
}

void ShuffleAll(Random& random, std::vector<int64_t>& order) {
  for (size_t i = order.size() - 1; i > 0; --i) std::swap(order[i], order[random.Below(i + 1)]);
}

void ShuffleThroughBuffer(Random& random, size_t buffer_size, std::vector<int64_t>& order) {
  std::vector<int64_t> buffer(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(std::min(buffer_size, order.size())));
  const size_t held = buffer.size();
  for (size_t out = 0; out < order.size(); ++out) {
    int64_t& drawn = buffer[random.Below(buffer.size())];
    const int64_t example = drawn;
    if (out + held < order.size()) {
      drawn = order[out + held];
    } else {
      drawn = buffer.back();
      buffer.pop_back();
    }
    order[out] = example;
  }
}

}  // namespace

void MakeEpochOrder(const EpochOrderOptions& options, int64_t epoch, int64_t begin, int64_t end, std::vector<int64_t>& order) {
  TY_CHECK(0 <= begin && begin < end);
  order.resize(static_cast<size_t>(end - begin));
  std::iota(order.begin(), order.end(), begin);
  if (options.interleave.files > 0 && !options.files.empty()) {
    Interleave(PartsWithin(options.files, begin, end), options.interleave, order);
    TY_CHECK(static_cast<int64_t>(order.size()) == end - begin);
  }
  if (options.shuffle.kind == ShuffleConfig::Kind::kNone) return;
  Random random(options.seed ^ kOrderStream, static_cast<uint64_t>(epoch));
  if (begin > 0) random = Random(random.Next(), static_cast<uint64_t>(begin));
  if (options.shuffle.kind == ShuffleConfig::Kind::kAll) return ShuffleAll(random, order);
  ShuffleThroughBuffer(random, static_cast<size_t>(options.shuffle.buffer), order);
}

}  // namespace trainyard::engine
