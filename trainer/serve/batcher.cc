#include "trainer/serve/batcher.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <iterator>
#include <utility>

#include "trainer/base/check.h"
#include "trainer/base/clock.h"

namespace trainyard::engine {
namespace {

absl::Status NotFinite() {
  return absl::InvalidArgumentError(
      "the model gives numbers that are not finite: its training has diverged, or an example has very large numbers");
}

}  // namespace

int64_t BucketOf(int64_t examples) { return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(examples))); }

Batcher::Batcher(const BatcherOptions& options, Model model, Listener listener)
    : options_(options), model_(std::move(model)), listener_(std::move(listener)) {
  TY_CHECK(options.most_batch > 0 && BucketOf(options.most_batch) == options.most_batch);
  thread_ = std::thread([this] { Loop(); });
}

Batcher::~Batcher() {
  {
    const MutexLock lock(&mutex_);
    closing_ = true;
  }
  thread_.join();
}

absl::Status Batcher::Submit(ServedExamples examples, absl::Time deadline, Done done) {
  TY_CHECK(examples.count > 0);
  if (examples.count > options_.most_queued) {
    return absl::InvalidArgumentError(
        fmt::format("found {} examples, expected at most {} in a request (--max-queue)", examples.count, options_.most_queued));
  }
  auto item = std::make_shared<Item>();
  item->examples = std::move(examples);
  item->arrived = RealClock().Now();
  item->deadline = deadline;
  item->done = std::move(done);
  const MutexLock lock(&mutex_);
  TY_CHECK(!closing_);
  if (queued_ + item->examples.count > options_.most_queued) {
    return absl::ResourceExhaustedError(
        fmt::format("{} examples wait for the model, at most {} may (--max-queue); try again later", queued_, options_.most_queued));
  }
  queued_ += item->examples.count;
  items_.push_back(std::move(item));
  return absl::OkStatus();
}

int64_t Batcher::queued() const {
  const MutexLock lock(&mutex_);
  return queued_;
}

void Batcher::Loop() {
  while (true) {
    std::vector<std::shared_ptr<Item>> expired;
    std::vector<Piece> pieces;
    {
      const MutexLock lock(&mutex_);
      mutex_.Await(absl::Condition(this, &Batcher::HasWork));
      if (items_.empty()) return;
      if (options_.most_wait > absl::ZeroDuration()) {
        mutex_.AwaitWithDeadline(absl::Condition(this, &Batcher::HasBatch), items_.front()->arrived + options_.most_wait);
      }
      expired = TakeExpired();
      pieces = TakeBatch();
    }
    for (const auto& item : expired) item->done(absl::DeadlineExceededError("the request's time was over before the model was free"));
    if (!pieces.empty()) RunBatch(pieces);
  }
}

std::vector<std::shared_ptr<Batcher::Item>> Batcher::TakeExpired() {
  const absl::Time now = RealClock().Now();
  const auto over = [now](const std::shared_ptr<Item>& item) { return item->begun == 0 && item->deadline <= now; };
  std::vector<std::shared_ptr<Item>> expired;
  std::ranges::copy_if(items_, std::back_inserter(expired), over);
  if (expired.empty()) return expired;
  std::erase_if(items_, over);
  for (const auto& item : expired) queued_ -= item->examples.count;
  return expired;
}

std::vector<Batcher::Piece> Batcher::TakeBatch() {
  std::vector<Piece> pieces;
  int64_t room = options_.most_batch;
  while (room > 0 && !items_.empty() && (pieces.empty() || items_.front()->examples.dtype == pieces[0].item->examples.dtype)) {
    const std::shared_ptr<Item> item = items_.front();
    const int64_t count = std::min(room, item->examples.count - item->begun);
    pieces.push_back({.item = item, .first = item->begun, .count = count});
    item->begun += count;
    room -= count;
    queued_ -= count;
    if (item->begun == item->examples.count) items_.pop_front();
  }
  return pieces;
}

std::span<const std::byte> Batcher::BytesOf(const std::vector<Piece>& pieces, int64_t size) {
  const ServedExamples& first = pieces[0].item->examples;
  const size_t each = first.bytes.size() / static_cast<size_t>(first.count);
  if (pieces.size() == 1 && pieces[0].count == size) {
    return std::span(first.bytes).subspan(static_cast<size_t>(pieces[0].first) * each, static_cast<size_t>(size) * each);
  }
  bytes_.assign(static_cast<size_t>(size) * each, std::byte{0});
  size_t at = 0;
  for (const Piece& piece : pieces) {
    const size_t count = static_cast<size_t>(piece.count) * each;
    std::memcpy(bytes_.data() + at, piece.item->examples.bytes.data() + static_cast<size_t>(piece.first) * each, count);
    at += count;
  }
  return bytes_;
}

void Batcher::RunBatch(const std::vector<Piece>& pieces) {
  int64_t examples = 0;
  for (const Piece& piece : pieces) examples += piece.count;
  const int64_t size = BucketOf(examples);
  const absl::Time begin = RealClock().Now();
  const absl::StatusOr<std::span<const float>> values = model_(pieces[0].item->examples.dtype, BytesOf(pieces, size), size);
  listener_({.examples = examples, .size = size, .time = RealClock().Now() - begin});
  const size_t each = values.ok() ? values->size() / static_cast<size_t>(size) : 0;
  size_t at = 0;
  for (const Piece& piece : pieces) {
    Item& item = *piece.item;
    const size_t first = std::exchange(at, at + static_cast<size_t>(piece.count) * each);
    if (!item.done) continue;  // an earlier batch of it has failed
    if (!values.ok()) {
      std::exchange(item.done, nullptr)(values.status());
      continue;
    }
    const std::span<const float> own = values->subspan(first, at - first);
    if (!std::ranges::all_of(own, [](float value) { return std::isfinite(value); })) {
      std::exchange(item.done, nullptr)(NotFinite());
      continue;
    }
    item.values.insert(item.values.end(), own.begin(), own.end());
    if (piece.first + piece.count == item.examples.count) std::exchange(item.done, nullptr)(std::move(item.values));
  }
}

}  // namespace trainyard::engine
