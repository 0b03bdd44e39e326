#include "trainer/profile/exchanges.h"

#include <map>
#include <tuple>

namespace trainyard::engine {
namespace {

// Of a push as one side numbers it: part and step.
using PushKey = std::pair<int32_t, int64_t>;

struct AtServer {
  size_t server = 0;
  const Span* span = nullptr;
};

// The spans of all servers, findable by push.
struct ServerSpans {
  std::map<std::tuple<int, int32_t, int64_t>, AtServer> received;  // by worker, part, step: the first of repeated ones
  std::map<PushKey, AtServer> summed;                              // sync: one for all workers of a round
};

ServerSpans IndexServers(std::span<const ReplicaProfile> profiles) {
  ServerSpans index;
  for (size_t i = 0; i < profiles.size(); ++i) {
    for (const Span& span : profiles[i].spans) {
      if (span.kind != SpanKind::kReceive && span.kind != SpanKind::kSum) continue;
      index.received.try_emplace({span.worker, span.id, span.step}, AtServer{i, &span});
      if (span.kind == SpanKind::kSum) index.summed.try_emplace({span.id, span.step}, AtServer{i, &span});
    }
  }
  return index;
}

std::map<PushKey, const Span*> IndexWorker(const ReplicaProfile& profile, SpanKind kind) {
  std::map<PushKey, const Span*> index;
  for (const Span& span : profile.spans) {
    if (span.kind == kind) index.try_emplace({span.id, span.step}, &span);
  }
  return index;
}

const Span* Find(const std::map<PushKey, const Span*>& index, const PushKey& key) {
  const auto found = index.find(key);
  return found == index.end() ? nullptr : found->second;
}

}  // namespace

std::vector<Exchange> FindExchanges(std::span<const ReplicaProfile> profiles) {
  std::vector<Exchange> exchanges;
  const ServerSpans servers = IndexServers(profiles);
  for (size_t worker = 0; worker < profiles.size(); ++worker) {
    const ReplicaProfile& profile = profiles[worker];
    if (profile.rank < 0) continue;
    const auto arrived = IndexWorker(profile, SpanKind::kArrived);
    const auto pulled = IndexWorker(profile, SpanKind::kPull);
    for (const Span& push : profile.spans) {
      if (push.kind != SpanKind::kPush) continue;
      const PushKey key(push.id, push.step);
      const auto received = servers.received.find({profile.rank, push.id, push.step});
      const auto summed = servers.summed.find(key);
      if (received == servers.received.end() || summed == servers.summed.end()) continue;
      // Async: each push is summed on its own, even if other workers pushed the same step.
      const Span* const sum = received->second.span->kind == SpanKind::kSum ? received->second.span : summed->second.span;
      const Exchange exchange{.worker = worker,
                              .server = received->second.server,
                              .push = &push,
                              .receive = received->second.span,
                              .sum = sum,
                              .arrived = Find(arrived, key),
                              .pull = Find(pulled, key)};
      if (exchange.arrived != nullptr && exchange.pull != nullptr) exchanges.push_back(exchange);
    }
  }
  return exchanges;
}

}  // namespace trainyard::engine
