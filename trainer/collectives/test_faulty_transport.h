// A transport whose network misbehaves, for tests: parts of sums come late, not at all, twice or in
// another order, or their stream is cut.
#pragma once

#include <algorithm>
#include <atomic>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "trainer/base/mutex.h"
#include "trainer/transport/transport.h"

namespace trainyard::engine {

enum class Fault : uint8_t {
  kDelay,      // each part, and all behind it, waits for the next heartbeat
  kReorder,    // each part is overtaken by the next one, or by a heartbeat
  kDrop,       // one part is lost
  kDuplicate,  // one part comes twice
  kCut,        // the stream of one part ends
};

struct FaultPlan {
  Fault fault = Fault::kDelay;
  int at = 0;  // the part that is dropped, doubled or cut off, counted over all streams
  std::atomic<int> parts = 0;
};

// What becomes of the records of one stream before their handler gets them.
class FaultyStream {
 public:
  // The records that arrive now, in their order. `cut`: the stream ends.
  std::vector<Record> Pass(std::span<Record> records, FaultPlan& plan, bool& cut) {
    std::vector<Record> out;
    for (Record& record : records) {
      const bool part = record.header.op == WireOp::kSum || record.header.op == WireOp::kResult;
      const bool beat = record.header.op == WireOp::kHeartbeat;
      const bool hit = part && plan.parts.fetch_add(1) == plan.at;
      if (plan.fault == Fault::kDelay && !beat && (part || !held_.empty())) {
        held_.push_back(std::move(record));
        continue;
      }
      if (plan.fault == Fault::kReorder && part && held_.empty()) {
        held_.push_back(std::move(record));
        continue;
      }
      if (hit && plan.fault == Fault::kDrop) continue;
      if (hit && plan.fault == Fault::kDuplicate) out.push_back(record);
      cut = cut || (hit && plan.fault == Fault::kCut);
      out.push_back(std::move(record));
      std::ranges::move(held_, std::back_inserter(out));
      held_.clear();
    }
    return out;
  }

 private:
  std::vector<Record> held_;
};

class FaultyHandler final : public StreamHandler {
 public:
  FaultyHandler(std::shared_ptr<StreamHandler> inner, FaultPlan& plan) : inner_(std::move(inner)), plan_(plan) {}

  void OnOpened(const std::shared_ptr<Stream>& stream) override { inner_->OnOpened(stream); }
  void OnTurnedAway(const std::string& peer, const absl::Status& why) override { inner_->OnTurnedAway(peer, why); }
  void OnMessage(const std::shared_ptr<Stream>& stream, std::span<Record> records) override {
    bool cut = false;
    std::vector<Record> out = Of(stream.get())->Pass(records, plan_, cut);
    if (cut) return stream->Abort();
    if (!out.empty()) inner_->OnMessage(stream, out);
  }
  void OnClosed(const std::shared_ptr<Stream>& stream, const absl::Status& status) override {
    {
      MutexLock lock(&mutex_);
      streams_.erase(stream.get());
    }
    inner_->OnClosed(stream, status);
  }

 private:
  // Calls for one stream come one after the other.
  std::shared_ptr<FaultyStream> Of(const Stream* stream) {
    MutexLock lock(&mutex_);
    std::shared_ptr<FaultyStream>& found = streams_[stream];
    if (found == nullptr) found = std::make_shared<FaultyStream>();
    return found;
  }

  const std::shared_ptr<StreamHandler> inner_;
  FaultPlan& plan_;
  Mutex mutex_;
  std::map<const Stream*, std::shared_ptr<FaultyStream>> streams_ ABSL_GUARDED_BY(mutex_);
};

// `inner` and `plan` must outlive it and its streams.
class FaultyTransport final : public Transport {
 public:
  FaultyTransport(Transport& inner, FaultPlan& plan) : inner_(inner), plan_(plan) {}
  std::shared_ptr<Stream> Dial(const std::string& address, std::shared_ptr<StreamHandler> handler, absl::Duration deadline) override {
    return inner_.Dial(address, std::make_shared<FaultyHandler>(std::move(handler), plan_), deadline);
  }
  absl::StatusOr<std::unique_ptr<Listener>> Listen(const std::string& address, std::shared_ptr<StreamHandler> handler) override {
    return inner_.Listen(address, std::make_shared<FaultyHandler>(std::move(handler), plan_));
  }

 private:
  Transport& inner_;
  FaultPlan& plan_;
};

}  // namespace trainyard::engine
