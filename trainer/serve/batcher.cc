#include "trainer/serve/batcher.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <iterator>
#include <numeric>
#include <optional>
#include <utility>

#include "trainer/base/check.h"
#include "trainer/base/clock.h"
#include "trainer/base/status_macros.h"

namespace trainyard::engine {
namespace {

absl::Status NotFinite() {
  return absl::InvalidArgumentError(
      "the prediction is not finite: an example has very large numbers, or the checkpoint's training has diverged");
}

// The steps that a row reads next; 0: its last one, of which the model says something.
int64_t PieceOf(int64_t steps_left) { return steps_left == 1 ? 0 : ReadLengthFor(steps_left - 1); }

}  // namespace

int64_t BucketOf(int64_t examples) { return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(examples))); }

Batcher::Batcher(const BatcherOptions& options, Model model, Reader reader, Listener listener)
    : options_(options), model_(std::move(model)), reader_(std::move(reader)), listener_(std::move(listener)) {
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

absl::Status Batcher::Submit(Request request) {
  const int64_t count = request.examples.count;
  TY_CHECK(count > 0 && (request.carried == nullptr || count == 1));
  TY_CHECK(request.examples.steps.empty() || static_cast<int64_t>(request.examples.steps.size()) == count);
  if (count > options_.most_queued) {
    return absl::InvalidArgumentError(
        fmt::format("found {} examples, expected at most {} in a request (--max-queue)", count, options_.most_queued));
  }
  auto item = std::make_shared<Item>();
  const std::vector<int64_t>& steps = request.examples.steps;
  const int64_t all_steps = steps.empty() ? count : std::accumulate(steps.begin(), steps.end(), int64_t{0});
  item->step_bytes = request.examples.bytes.size() / static_cast<size_t>(all_steps);
  item->request = std::move(request);
  item->arrived = RealClock().Now();
  const MutexLock lock(&mutex_);
  TY_CHECK(!closing_);
  if (queued_ + count > options_.most_queued) {
    return absl::ResourceExhaustedError(
        fmt::format("{} examples wait for the model, at most {} may (--max-queue); try again later", queued_, options_.most_queued));
  }
  queued_ += count;
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
    {
      const MutexLock lock(&mutex_);
      mutex_.Await(absl::Condition(this, &Batcher::HasWork));
      if (items_.empty() && rows_.empty()) return;
      if (options_.most_wait > absl::ZeroDuration() && rows_.empty()) {
        mutex_.AwaitWithDeadline(absl::Condition(this, &Batcher::HasBatch), items_.front()->arrived + options_.most_wait);
      }
      expired = TakeExpired();
      FillRows();
    }
    for (const auto& item : expired) Answer(*item, absl::DeadlineExceededError("the request's time was over before the model was through"));
    if (!rows_.empty()) RunBatch();
  }
}

std::vector<std::shared_ptr<Batcher::Item>> Batcher::TakeExpired() {
  const absl::Time now = RealClock().Now();
  const auto over = [now](const std::shared_ptr<Item>& item) { return item->request.deadline <= now; };
  std::vector<std::shared_ptr<Item>> expired;
  std::ranges::copy_if(items_, std::back_inserter(expired), over);
  for (const auto& item : expired) queued_ -= item->request.examples.count - item->begun;
  if (!expired.empty()) std::erase_if(items_, over);
  for (const Row& row : rows_) {
    if (over(row.item) && std::ranges::find(expired, row.item) == expired.end()) expired.push_back(row.item);
  }
  if (!expired.empty()) std::erase_if(rows_, [&](const Row& row) { return over(row.item); });
  return expired;
}

void Batcher::FillRows() {
  auto next = items_.begin();
  while (next != items_.end() && static_cast<int64_t>(rows_.size()) < options_.most_batch) {
    const std::shared_ptr<Item> item = *next;
    const Request& request = item->request;
    if (!rows_.empty() && request.examples.dtype != rows_[0].item->request.examples.dtype) return;
    if (request.carried && request.carried->in_batch) {  // behind another one of its sequence
      ++next;
      continue;
    }
    const std::vector<int64_t>& steps = request.examples.steps;
    for (; item->begun < request.examples.count && static_cast<int64_t>(rows_.size()) < options_.most_batch; ++item->begun) {
      const int64_t own = steps.empty() ? 1 : steps[static_cast<size_t>(item->begun)];
      rows_.push_back({.item = item, .example = item->begun, .at = item->begun_at, .steps_left = own, .state = {}});
      item->begun_at += static_cast<size_t>(own) * item->step_bytes;
      --queued_;
    }
    if (request.carried) {
      request.carried->in_batch = true;
      rows_.back().state = request.carried->state;
    }
    if (item->begun == request.examples.count) next = items_.erase(next);
  }
}

// The least piece above that of the run before, or else the least of all: each has its turn.
void Batcher::TakeGroup() {
  int64_t least = kReadLengths[0];
  std::optional<int64_t> above;
  for (const Row& row : rows_) {
    const int64_t piece = PieceOf(row.steps_left);
    least = std::min(least, piece);
    if (piece > piece_) above = std::min(piece, above.value_or(piece));
  }
  piece_ = above.value_or(least);
  group_.clear();
  states_.clear();
  for (Row& row : rows_) {
    if (PieceOf(row.steps_left) != piece_) continue;
    group_.push_back(&row);
    states_.push_back(&row.state);
  }
}

std::span<const std::byte> Batcher::BytesOfGroup(int64_t size) {
  const Row& first = *group_[0];
  const ServedExamples& examples = first.item->request.examples;
  const size_t each = first.item->step_bytes * static_cast<size_t>(std::max<int64_t>(1, piece_));
  const bool as_they_came = examples.steps.empty() && static_cast<int64_t>(group_.size()) == size && group_.back()->item == first.item;
  if (as_they_came) return std::span(examples.bytes).subspan(first.at, static_cast<size_t>(size) * each);
  bytes_.assign(static_cast<size_t>(size) * each, std::byte{0});
  for (size_t i = 0; i < group_.size(); ++i) {
    std::memcpy(bytes_.data() + i * each, group_[i]->item->request.examples.bytes.data() + group_[i]->at, each);
    group_[i]->at += each;
  }
  return bytes_;
}

// What the model says, or nothing where rows have read.
absl::StatusOr<std::span<const float>> Batcher::RunGroup(int64_t size) {
  if (piece_ == 0) return model_(group_[0]->item->request.examples.dtype, BytesOfGroup(size), size, states_);
  TY_RETURN_IF_ERROR(reader_(BytesOfGroup(static_cast<int64_t>(group_.size())), piece_, states_));
  return std::span<const float>();
}

void Batcher::Answer(Item& item, absl::StatusOr<std::vector<float>> values, const RowState* state) {
  if (!item.request.done) return;  // an earlier batch of it has failed
  const bool answered = std::exchange(item.request.done, nullptr)(std::move(values));
  if (!item.request.carried || item.begun == 0) return;
  item.request.carried->in_batch = false;
  if (answered && state != nullptr) item.request.carried->state = *state;
}

void Batcher::EndStep(Row& row, std::span<const float> said) {
  row.steps_left -= std::max<int64_t>(1, piece_);
  if (piece_ > 0) return;
  Item& item = *row.item;
  if (!std::ranges::all_of(said, [](float value) { return std::isfinite(value); })) return Answer(item, NotFinite());
  item.values.resize(static_cast<size_t>(item.request.examples.count) * said.size());
  std::ranges::copy(said, item.values.begin() + static_cast<ptrdiff_t>(static_cast<size_t>(row.example) * said.size()));
  if (++item.answered == item.request.examples.count) Answer(item, std::move(item.values), &row.state);
}

void Batcher::RunBatch() {
  TakeGroup();
  const auto examples = static_cast<int64_t>(group_.size());
  const int64_t size = BucketOf(examples);
  const absl::Time begin = RealClock().Now();
  const absl::StatusOr<std::span<const float>> values = RunGroup(size);
  listener_({.examples = examples, .size = size, .time = RealClock().Now() - begin});
  const size_t each = values.ok() ? values->size() / static_cast<size_t>(size) : 0;
  for (size_t i = 0; i < group_.size(); ++i) {
    if (values.ok()) {
      EndStep(*group_[i], values->subspan(i * each, each));
    } else {
      Answer(*group_[i]->item, values.status());
    }
  }
  std::erase_if(rows_, [](const Row& row) { return row.steps_left == 0 || !row.item->request.done; });
}

}  // namespace trainyard::engine
