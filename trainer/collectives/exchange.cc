#include "trainer/collectives/exchange.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "trainer/base/check.h"

namespace trainyard::engine {
namespace {

constexpr size_t kBlock = 4096;  // floats: the partial sums of a block fit into a second-level cache

size_t CountReduces(const Schedule& schedule) {
  return static_cast<size_t>(std::ranges::count(schedule.rounds, Round::Kind::kReduce, &Round::kind));
}

// The pieces of `range` of spans that lie one after the other, from element `at` on.
template <typename T, typename Span>
std::vector<std::span<T>> Cut(std::span<const Span> spans, size_t at, SliceRange range, std::span<T> (*values)(const Span&)) {
  std::vector<std::span<T>> pieces;
  for (const Span& each : spans) {
    const std::span<T> all = values(each);
    const size_t begin = std::max(at, range.begin);
    const size_t end = std::min(at + all.size(), range.end());
    if (begin < end) pieces.push_back(all.subspan(begin - at, end - begin));
    at += all.size();
  }
  return pieces;
}

std::span<const float> Itself(const std::span<const float>& span) { return span; }
std::span<float> TargetValues(const BucketTarget& target) { return target.values; }
std::span<const float> TargetResults(const BucketTarget& target) { return target.values; }

Payload PayloadOf(const std::vector<std::span<const float>>& pieces, std::shared_ptr<const void> owner) {
  std::vector<std::span<const std::byte>> bytes;
  bytes.reserve(pieces.size());
  for (const std::span<const float> piece : pieces) bytes.push_back(std::as_bytes(piece));
  return {std::move(bytes), std::move(owner)};
}

}  // namespace

Exchange::Exchange(int rank, int ranks, int devices, const Schedule& schedule, size_t elements, BorrowCount& borrowed, BorrowCount& results)
    : rank_(rank),
      all_(ranks * devices),
      schedule_(schedule),
      borrowed_(borrowed),
      results_(results),
      last_reduce_(CountReduces(schedule)),
      partial_range_{0, elements},
      spares_(schedule.rounds.size()) {}

void Exchange::Begin(BucketValues values, bool past_caches) {
  values_ = std::move(values);
  past_caches_ = past_caches;
  round_ = 0;
  contributors_ = values_.own.empty() ? 0 : values_.addends;
  partial_ = nullptr;
  concluded_ = false;
  if (last_reduce_ > 0 || schedule_.reduced.count == 0) return;
  // One rank alone: its values are the sum.
  size_t at = values_.own_begin;
  for (const std::span<const float> piece : values_.own) {
    Put(at, piece);
    at += piece.size();
  }
  if (values_.owner != nullptr) values_.owner->Done();
  concluded_ = true;
}

std::vector<std::span<const float>> Exchange::Have(SliceRange range) const {
  if (concluded_ && !values_.targets.empty()) {
    return Cut<const float, BucketTarget>(values_.targets, values_.targets_begin, range, TargetResults);
  }
  if (partial_ == nullptr) return Cut<const float, std::span<const float>>(values_.own, values_.own_begin, range, Itself);
  return {std::span<const float>(partial_->as<float>() + (range.begin - partial_range_.begin), range.count)};
}

std::vector<PartToSend> Exchange::TakeSends() {
  std::vector<PartToSend> sends;
  for (const Transfer& transfer : schedule_.rounds[round_].sends) {
    PartToSend part{.peer = transfer.peer, .range = transfer.range, .contributors = contributors_, .payload = {}};
    if (contributors_ > 0) {
      part.payload = PayloadOf(Have(transfer.range), OwnerOf(transfer));
    }
    sends.push_back(std::move(part));
  }
  return sends;
}

std::shared_ptr<const void> Exchange::OwnerOf(const Transfer& transfer) {
  if (concluded_) return results_.Lend(transfer.peer);
  if (partial_ != nullptr) return partial_;
  return borrowed_.Lend(transfer.peer);
}

absl::Status Exchange::Receive(std::span<const ReceivedPart> parts) {
  const Round& round = schedule_.rounds[round_];
  TY_CHECK(parts.size() == round.receives.size());
  const absl::Status status = round.kind == Round::Kind::kReduce ? Reduce(round, parts) : Gather(round, parts);
  if (status.ok()) ++round_;
  return status;
}

absl::Status Exchange::Reduce(const Round& round, std::span<const ReceivedPart> parts) {
  if (parts.empty()) return absl::OkStatus();
  const SliceRange range = round.receives[0].range;
  int contributors = contributors_;
  for (const ReceivedPart& part : parts) contributors += part.contributors;
  if (contributors > all_) {
    return absl::InvalidArgumentError(fmt::format("ranks tell of {} contributions, but they have {} devices", contributors, all_));
  }
  // Ranks in their order, this one among them; nothing: a rank without a contribution.
  const Payload own = contributors_ > 0 ? PayloadOf(Have(range), nullptr) : Payload();
  std::vector<std::optional<PayloadReader>> readers(parts.size() + 1);
  size_t at = 0;
  const auto add = [&](int count, const Payload& payload) {
    if (count > 0) readers[at].emplace(payload);
    ++at;
  };
  const auto lower = [&](const Transfer& transfer) { return transfer.peer < rank_; };
  const auto place = static_cast<size_t>(std::ranges::count_if(round.receives, lower));
  for (size_t i = 0; i <= parts.size(); ++i) {
    if (i == place) add(contributors_, own);
    if (i < parts.size()) add(parts[i].contributors, parts[i].payload);
  }
  const bool whole = round_ + 1 == last_reduce_ && range == schedule_.reduced;
  std::shared_ptr<Buffer> sum = whole ? nullptr : TakeBuffer(range.count);
  contributors_ = contributors;
  if (contributors > 0) {
    if (tree_ == nullptr || tree_->ranks() != readers.size()) tree_ = std::make_unique<TreeSum>(static_cast<int>(readers.size()), kBlock);
    for (size_t done = 0; done < range.count; done += kBlock) {
      const size_t count = std::min(kBlock, range.count - done);
      tree_->Begin(count);
      for (std::optional<PayloadReader>& reader : readers) {
        if (reader) {
          tree_->Add(reader->Floats(count, tree_->Scratch()));
        } else {
          tree_->AddNothing();
        }
      }
      if (whole) {
        Conclude(range.begin + done, count);
      } else {
        tree_->FinishInto({sum->as<float>() + done, count}, /*divisor=*/1);
      }
    }
  }
  if (whole && values_.owner != nullptr) values_.owner->Done();
  concluded_ = whole;
  partial_ = std::move(sum);
  partial_range_ = range;
  return absl::OkStatus();
}

absl::Status Exchange::Gather(const Round& round, std::span<const ReceivedPart> parts) {
  for (size_t i = 0; i < parts.size(); ++i) {
    const Transfer& transfer = round.receives[i];
    if (parts[i].contributors > all_ || (concluded_ && parts[i].contributors != contributors_)) {
      return absl::InvalidArgumentError(fmt::format("rank {} tells of {} contributions, {} of {}", transfer.peer, parts[i].contributors,
                                                    concluded_ ? "others tell" : "there are devices for at most",
                                                    concluded_ ? contributors_ : all_));
    }
    contributors_ = parts[i].contributors;
    concluded_ = true;
    if (contributors_ == 0) continue;
    PayloadReader reader(parts[i].payload);
    for (const std::span<float> piece : Cut<float, BucketTarget>(values_.targets, values_.targets_begin, transfer.range, TargetValues)) {
      if (past_caches_) {
        reader.ReadPastCaches(std::as_writable_bytes(piece));
      } else {
        reader.Read(std::as_writable_bytes(piece));
      }
    }
  }
  return absl::OkStatus();
}

std::shared_ptr<Buffer> Exchange::TakeBuffer(size_t floats) {
  // The partial sum of an earlier step may still be on its way.
  std::shared_ptr<Buffer>& spare = spares_[round_];
  if (spare == nullptr || spare.use_count() > 1) spare = std::make_shared<Buffer>(floats * sizeof(float));
  return spare;
}

float Exchange::DivisorOf(const BucketTarget& target) const {
  switch (target.divisor) {
    case Divisor::kNone:
      return 1;
    case Divisor::kAll:
      return static_cast<float>(all_);
    case Divisor::kContributors:
      return static_cast<float>(contributors_);
  }
  return 1;
}

void Exchange::Conclude(size_t begin, size_t count) {
  size_t at = values_.targets_begin;
  for (const BucketTarget& target : values_.targets) {
    if (values_.owner == nullptr && at <= begin && begin + count <= at + target.values.size()) {  // nearly every block
      tree_->FinishInto(target.values.subspan(begin - at, count), DivisorOf(target));
      return;
    }
    at += target.values.size();
  }
  Put(begin, tree_->Finish());
}

void Exchange::Put(size_t begin, std::span<const float> sum) {
  if (values_.owner != nullptr) return values_.owner->Take(begin, sum, contributors_);
  size_t at = values_.targets_begin;
  for (const BucketTarget& target : values_.targets) {
    const size_t from = std::max(at, begin);
    const size_t to = std::min(at + target.values.size(), begin + sum.size());
    if (from < to) {
      const std::span<float> out = target.values.subspan(from - at, to - from);
      const std::span<const float> in = sum.subspan(from - begin, to - from);
      const float divisor = DivisorOf(target);
      if (divisor == 1) {
        std::ranges::copy(in, out.begin());
      } else {
        for (size_t i = 0; i < in.size(); ++i) out[i] = in[i] / divisor;
      }
    }
    at += target.values.size();
  }
}

}  // namespace trainyard::engine
