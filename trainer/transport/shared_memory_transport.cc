#include "trainer/transport/shared_memory_transport.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "trainer/base/clock.h"
#include "trainer/base/log.h"
#include "trainer/base/status_macros.h"
#include "trainer/transport/shared_segment.h"
#include "trainer/transport/shared_stream.h"
#include "trainer/transport/stream_count.h"
#include "trainer/transport/stream_threads.h"

namespace trainyard::engine {
namespace {

// Common to all streams of a transport.
struct Commons {
  explicit Commons(const SharedMemoryOptions& its_options) : options(its_options) {}

  // Logs the first failure. NotFound means another machine, which is expected.
  void WarnOnce(const absl::Status& why) {
    if (absl::IsNotFound(why) || warned.exchange(true)) return;
    LogWarning("replicas of this machine talk over the network: {}", std::string(why.message()));
  }

  const SharedMemoryOptions options;
  StreamThreads threads;
  std::atomic<bool> warned = false;
};

Record HandshakeRecord(WireOp op, Payload payload) {
  Record record;
  record.header.op = op;
  record.header.length = static_cast<uint32_t>(payload.size());
  record.payload = std::move(payload);
  return record;
}

absl::Status ExpectOp(const Record& record, WireOp op) {
  if (record.header.op == op) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("the first record of a stream is '{}', expected '{}'", WireOpName(record.header.op), WireOpName(op)));
}

// The user of the transport holds this stream. It stands for the stream below until the ends know
// each other, then for that one or a SharedStream. It handles the records of both. All of them hold
// each other until OnClosed.
class MeetingStream final : public Stream, public StreamHandler, public std::enable_shared_from_this<MeetingStream> {
 public:
  MeetingStream(std::shared_ptr<Commons> commons, std::shared_ptr<StreamHandler> handler, std::shared_ptr<StreamCount> count,
                std::string peer)
      : commons_(std::move(commons)), handler_(std::move(handler)), count_(std::move(count)), peer_(std::move(peer)) {
    count_->Add();
  }

  void Dial(Transport& transport, absl::Duration deadline) {
    dials_ = true;
    Record offer = MakeOffer();
    const std::shared_ptr<Stream> below = transport.Dial(peer_, shared_from_this(), deadline);
    below->Send({std::move(offer)});
    absl::MutexLock lock(&mutex_);
    below_ = below;
  }
  void Accept(const std::shared_ptr<Stream>& below) {
    {
      absl::MutexLock lock(&mutex_);
      below_ = below;
    }
    handler_->OnOpened(shared_from_this());
  }

  void Send(std::vector<Record> records, bool more) override {
    std::shared_ptr<Stream> target;
    {
      absl::MutexLock lock(&mutex_);
      if (target_ == nullptr) {
        if (closing_) return;
        for (Record& record : records) waiting_.push_back(std::move(record));
        more_ = more;
        return;
      }
      target = target_;
    }
    target->Send(std::move(records), more);
  }

  void Close(const absl::Status& status) override {
    std::shared_ptr<Stream> target;
    std::vector<Record> dropped;
    {
      absl::MutexLock lock(&mutex_);
      if (target_ == nullptr) {
        if (std::exchange(closing_, true)) return;
        if (status.ok() && !waiting_.empty()) return;  // when they are sent
        dropped.swap(waiting_);
      }
      target = target_ != nullptr ? target_ : below_;
    }
    target->Close(status);
  }

  void Abort() override { Current()->Abort(); }
  void SetWindow(size_t bytes) override {
    std::shared_ptr<Stream> target;
    {
      absl::MutexLock lock(&mutex_);
      window_ = bytes;
      target = target_;
    }
    if (target != nullptr) target->SetWindow(bytes);
  }
  void LendIfStarved() override { Current()->LendIfStarved(); }
  void HastenReturns() override { Current()->HastenReturns(); }
  bool Poll() override { return Current()->Poll(); }
  void EndPolling() override { Current()->EndPolling(); }
  bool shares_memory() const override { return Current()->shares_memory(); }
  void Trust() override { Current()->Trust(); }
  std::string peer() const override { return peer_; }
  StreamTraffic traffic() const override {
    absl::MutexLock lock(&mutex_);
    return target_ != nullptr ? target_->traffic() : StreamTraffic{};
  }

  void OnMessage(const std::shared_ptr<Stream>& stream, std::span<Record> records) override {
    if (stream.get() == shared_.load(std::memory_order_acquire)) return handler_->OnMessage(shared_from_this(), records);
    if (met_.load(std::memory_order_acquire)) {
      if (shared_.load(std::memory_order_acquire) == nullptr) return handler_->OnMessage(shared_from_this(), records);
      return stream->Close(absl::InvalidArgumentError(fmt::format("{}: a record beside the shared memory", peer_)));
    }
    {
      absl::MutexLock lock(&mutex_);
      below_ = stream;  // Dial may not have returned yet
    }
    const absl::StatusOr<std::shared_ptr<SharedStream>> shared = Meet(stream, records.front());
    if (!shared.ok()) return stream->Close(shared.status());
    SendWaiting(stream, *shared);
    if (records.size() > 1) OnMessage(stream, records.subspan(1));
  }

  void OnClosed(const std::shared_ptr<Stream>& stream, const absl::Status& status) override {
    std::shared_ptr<SharedStream> shared;
    std::vector<Record> dropped;
    {
      absl::MutexLock lock(&mutex_);
      if (below_ == nullptr) below_ = stream;  // it may have ended before Dial returned
      dropped.swap(waiting_);
      closing_ = true;
      if (stream.get() != shared_.load(std::memory_order_relaxed)) shared = shared_owner_;
    }
    if (shared != nullptr) return shared->EndBelow(status);
    const std::shared_ptr<StreamCount> count = count_;
    std::exchange(handler_, nullptr)->OnClosed(shared_from_this(), status);
    count->Remove();
  }

 private:
  std::shared_ptr<Stream> Current() const {
    absl::MutexLock lock(&mutex_);
    return target_ != nullptr ? target_ : below_;
  }

  Record MakeOffer() {
    absl::StatusOr<std::unique_ptr<SharedSegment>> segment = SharedSegment::Create(commons_->options.ring_bytes);
    if (!segment.ok()) {
      commons_->WarnOnce(segment.status());
      return HandshakeRecord(WireOp::kOffer, {});
    }
    const absl::StatusOr<SegmentOffer> offer = (*segment)->Offer();
    if (!offer.ok()) {
      commons_->WarnOnce(offer.status());
      return HandshakeRecord(WireOp::kOffer, {});
    }
    offered_ = *std::move(segment);
    if (commons_->options.lendable != nullptr) offered_->LendMemory(*commons_->options.lendable);
    return HandshakeRecord(WireOp::kOffer, ToPayload(*offer));
  }

  // The first record decides. Null: the streams go on below.
  absl::StatusOr<std::shared_ptr<SharedStream>> Meet(const std::shared_ptr<Stream>& below, const Record& record) {
    return dials_ ? TakeAnswer(below, record) : TakeOffer(below, record);
  }

  absl::StatusOr<std::shared_ptr<SharedStream>> TakeAnswer(const std::shared_ptr<Stream>& below, const Record& record) {
    TY_RETURN_IF_ERROR(ExpectOp(record, WireOp::kShare));
    std::unique_ptr<SharedSegment> segment = std::move(offered_);
    if (segment != nullptr) segment->Close();
    if (record.payload.size() == 0) return nullptr;
    if (segment == nullptr || record.payload.ToString() != TextOf(segment->answer())) {
      return absl::InvalidArgumentError(fmt::format("{} shares another memory than it was offered", peer_));
    }
    LogInfo("talks to {} through shared memory", peer_);
    return StartSharing(std::move(segment), below);
  }

  absl::StatusOr<std::shared_ptr<SharedStream>> TakeOffer(const std::shared_ptr<Stream>& below, const Record& record) {
    TY_RETURN_IF_ERROR(ExpectOp(record, WireOp::kOffer));
    absl::StatusOr<std::shared_ptr<SharedStream>> shared = nullptr;
    std::string answer;
    if (record.payload.size() > 0) {
      const std::optional<SegmentOffer> offer = SegmentOfferOf(record.payload);
      if (!offer) {
        return absl::InvalidArgumentError(
            fmt::format("'{}' has {} bytes, expected {}", WireOpName(WireOp::kOffer), record.payload.size(), sizeof(SegmentOffer)));
      }
      absl::StatusOr<std::unique_ptr<SharedSegment>> segment = SharedSegment::Open(*offer);
      if (segment.ok()) {
        answer = TextOf((*segment)->answer());
        if (commons_->options.lendable != nullptr) (*segment)->LendMemory(*commons_->options.lendable);
        TY_ASSIGN_OR_RETURN(shared, StartSharing(*std::move(segment), below));
      } else {
        commons_->WarnOnce(segment.status());
      }
    }
    below->Send({HandshakeRecord(WireOp::kShare, Payload::OfText(std::move(answer)))});
    return shared;
  }

  static std::string TextOf(const SegmentToken& token) { return {reinterpret_cast<const char*>(token.data()), token.size()}; }

  absl::StatusOr<std::shared_ptr<SharedStream>> StartSharing(std::unique_ptr<SharedSegment> segment, const std::shared_ptr<Stream>& below) {
    const FlowOptions& flow = commons_->options.flow;
    const size_t first = dials_ ? std::numeric_limits<size_t>::max() : flow.first_message_bytes;
    auto shared = std::make_shared<SharedStream>(peer_, shared_from_this(), flow.window_bytes, first, std::move(segment),
                                                 commons_->options.lendable, below);
    {
      absl::MutexLock lock(&mutex_);
      shared_owner_ = shared;
    }
    shared_.store(shared.get(), std::memory_order_release);
    const absl::Status started = commons_->threads.Start([shared] { shared->Run(); });
    if (!started.ok()) {
      absl::MutexLock lock(&mutex_);
      shared_.store(nullptr, std::memory_order_release);
      shared_owner_ = nullptr;
      return started;
    }
    return shared;
  }

  // Sends what has waited, without a lock, since late records may need locks whose holders send.
  // Then opens the way for all.
  void SendWaiting(const std::shared_ptr<Stream>& below, const std::shared_ptr<SharedStream>& shared) {
    const std::shared_ptr<Stream> target = shared != nullptr ? std::static_pointer_cast<Stream>(shared) : below;
    met_.store(true, std::memory_order_release);
    while (true) {
      std::vector<Record> records;
      bool more = false;
      bool close = false;
      std::optional<size_t> window;
      {
        absl::MutexLock lock(&mutex_);
        records.swap(waiting_);
        more = more_;
        if (records.empty()) {
          target_ = target;
          close = closing_;
          window = window_;
        }
      }
      if (records.empty()) {
        if (window) target->SetWindow(*window);
        if (close) target->Close(absl::OkStatus());
        return;
      }
      target->Send(std::move(records), more);
    }
  }

  const std::shared_ptr<Commons> commons_;
  std::shared_ptr<StreamHandler> handler_;  // until OnClosed
  const std::shared_ptr<StreamCount> count_;
  const std::string peer_;
  bool dials_ = false;
  std::unique_ptr<SharedSegment> offered_;  // until the answer
  std::atomic<bool> met_ = false;
  std::atomic<const Stream*> shared_ = nullptr;

  mutable absl::Mutex mutex_;
  std::shared_ptr<Stream> below_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<SharedStream> shared_owner_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<Stream> target_ ABSL_GUARDED_BY(mutex_);  // null: the ends have not met
  std::vector<Record> waiting_ ABSL_GUARDED_BY(mutex_);     // until then
  bool more_ ABSL_GUARDED_BY(mutex_) = false;               // more records are to follow those that wait
  std::optional<size_t> window_ ABSL_GUARDED_BY(mutex_);
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
};

// The listener's end: a MeetingStream for each stream that comes.
class MeetingHandler final : public StreamHandler {
 public:
  MeetingHandler(std::shared_ptr<Commons> commons, std::shared_ptr<StreamHandler> handler, std::shared_ptr<StreamCount> count)
      : commons_(std::move(commons)), handler_(std::move(handler)), count_(std::move(count)) {}

  void OnOpened(const std::shared_ptr<Stream>& below) override {
    auto stream = std::make_shared<MeetingStream>(commons_, handler_, count_, below->peer());
    {
      absl::MutexLock lock(&mutex_);
      streams_.emplace(below.get(), stream);
    }
    stream->Accept(below);
  }
  void OnTurnedAway(const std::string& peer, const absl::Status& why) override { handler_->OnTurnedAway(peer, why); }
  void OnMessage(const std::shared_ptr<Stream>& below, std::span<Record> records) override { Find(*below)->OnMessage(below, records); }
  void OnClosed(const std::shared_ptr<Stream>& below, const absl::Status& status) override {
    const std::shared_ptr<MeetingStream> stream = Find(*below);
    {
      absl::MutexLock lock(&mutex_);
      streams_.erase(below.get());
    }
    stream->OnClosed(below, status);
  }

 private:
  std::shared_ptr<MeetingStream> Find(const Stream& below) {
    absl::MutexLock lock(&mutex_);
    return streams_.at(&below);
  }

  const std::shared_ptr<Commons> commons_;
  const std::shared_ptr<StreamHandler> handler_;
  const std::shared_ptr<StreamCount> count_;
  absl::Mutex mutex_;
  std::map<const Stream*, std::shared_ptr<MeetingStream>> streams_ ABSL_GUARDED_BY(mutex_);
};

class MeetingListener final : public Listener {
 public:
  MeetingListener(std::unique_ptr<Listener> below, std::shared_ptr<StreamCount> count, absl::Duration end_deadline)
      : below_(std::move(below)), count_(std::move(count)), end_deadline_(end_deadline) {}
  ~MeetingListener() override {
    below_.reset();
    count_->AwaitZero(end_deadline_, "accepted streams in shared memory");
  }
  std::string address() const override { return below_->address(); }

 private:
  std::unique_ptr<Listener> below_;
  const std::shared_ptr<StreamCount> count_;
  const absl::Duration end_deadline_;
};

class SharedMemoryTransport final : public Transport {
 public:
  SharedMemoryTransport(std::unique_ptr<Transport> below, const SharedMemoryOptions& options)
      : commons_(std::make_shared<Commons>(options)), below_(std::move(below)) {}
  ~SharedMemoryTransport() override {
    below_.reset();
    dialled_->AwaitZero(commons_->options.end_deadline, "dialled streams in shared memory");
    if (!commons_->threads.Await(RealClock().Now() + commons_->options.end_deadline)) {
      LogError("threads of streams in shared memory have not ended; they are given up");
    }
  }

  std::shared_ptr<Stream> Dial(const std::string& address, std::shared_ptr<StreamHandler> handler, absl::Duration deadline) override {
    auto stream = std::make_shared<MeetingStream>(commons_, std::move(handler), dialled_, address);
    stream->Dial(*below_, deadline);
    return stream;
  }

  absl::StatusOr<std::unique_ptr<Listener>> Listen(const std::string& address, std::shared_ptr<StreamHandler> handler) override {
    auto count = std::make_shared<StreamCount>();
    TY_ASSIGN_OR_RETURN(std::unique_ptr<Listener> below,
                        below_->Listen(address, std::make_shared<MeetingHandler>(commons_, std::move(handler), count)));
    return std::make_unique<MeetingListener>(std::move(below), std::move(count), commons_->options.end_deadline);
  }

 private:
  const std::shared_ptr<Commons> commons_;
  const std::shared_ptr<StreamCount> dialled_ = std::make_shared<StreamCount>();
  std::unique_ptr<Transport> below_;
};

}  // namespace

std::unique_ptr<Transport> MakeSharedMemoryTransport(std::unique_ptr<Transport> transport, const SharedMemoryOptions& options) {
  return std::make_unique<SharedMemoryTransport>(std::move(transport), options);
}

}  // namespace trainyard::engine
