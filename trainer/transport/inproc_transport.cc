#include "trainer/transport/inproc_transport.h"

#include <fmt/format.h>

#include <atomic>
#include <deque>
#include <map>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "trainer/base/check.h"
#include "trainer/transport/framing.h"

namespace trainyard::engine {
namespace {

class InprocLane;

// Something for a handler to be told, in order.
struct Event {
  std::shared_ptr<InprocLane> lane;
  bool opened = false;
  std::vector<Record> records;
  bool closed = false;
  absl::Status status;
};

// The queue of all events and the thread that delivers them.
class Mailroom {
 public:
  Mailroom() : thread_([this] { Deliver(); }) {}
  ~Mailroom() { thread_.join(); }

  void Post(Event event) {
    absl::MutexLock lock(&mutex_);
    events_.push_back(std::move(event));
  }
  // Deliver returns when the queue is empty.
  void Stop() {
    absl::MutexLock lock(&mutex_);
    stopped_ = true;
  }
  void LaneOpened() {
    absl::MutexLock lock(&mutex_);
    ++open_;
  }
  void AwaitNoLanes() {
    absl::MutexLock lock(&mutex_);
    mutex_.Await(absl::Condition(+[](int* open) { return *open == 0; }, &open_));
  }
  // Returns after the OnClosed of each.
  void AwaitClosed(const std::vector<std::shared_ptr<InprocLane>>& lanes);

 private:
  void Deliver();

  absl::Mutex mutex_;
  std::deque<Event> events_ ABSL_GUARDED_BY(mutex_);
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  int open_ ABSL_GUARDED_BY(mutex_) = 0;
  std::thread thread_;
};

class InprocLane final : public Lane, public std::enable_shared_from_this<InprocLane> {
 public:
  InprocLane(Mailroom& mailroom, std::string peer, std::shared_ptr<LaneHandler> handler)
      : mailroom_(mailroom), peer_(std::move(peer)), handler_(std::move(handler)) {}

  // Both ends, before anything is sent.
  static void Join(const std::shared_ptr<InprocLane>& a, const std::shared_ptr<InprocLane>& b) {
    absl::MutexLock lock_a(&a->mutex_);
    absl::MutexLock lock_b(&b->mutex_);
    a->other_ = b;
    b->other_ = a;
  }

  void Send(std::vector<Record> records, bool more) override {
    std::shared_ptr<InprocLane> other;
    {
      absl::MutexLock lock(&mutex_);
      if (ending_) return;
      for (const Record& record : records) {
        TY_CHECK(record.header.length == record.payload.size());
        traffic_.bytes_sent += static_cast<int64_t>(kWireHeaderBytes + record.payload.size());
        // Copied, as a wire would: the receiver never holds the sender's memory.
        corked_.push_back({record.header, Payload::OfText(record.payload.ToString())});
      }
      if (more) return;
      ++traffic_.messages_sent;
      other = other_;
      if (other != nullptr)
        mailroom_.Post(
            {.lane = other, .opened = false, .records = std::exchange(corked_, {}), .closed = false, .status = absl::OkStatus()});
    }
  }

  void Close(const absl::Status& status) override {
    if (status.ok()) Send({}, /*more=*/false);
    End(absl::OkStatus(), status);
  }

  void Abort() override { End(absl::OkStatus(), absl::UnavailableError("the other side ended the lane")); }

  std::string peer() const override { return peer_; }

  LaneTraffic traffic() const override {
    absl::MutexLock lock(&mutex_);
    return traffic_;
  }

  // Tells both handlers, once.
  void End(const absl::Status& here, const absl::Status& there) {
    std::shared_ptr<InprocLane> other;
    {
      absl::MutexLock lock(&mutex_);
      if (ending_) return;
      ending_ = true;
      corked_.clear();
      other = std::exchange(other_, nullptr);
    }
    mailroom_.Post({.lane = shared_from_this(), .opened = false, .records = {}, .closed = true, .status = here});
    if (other != nullptr) other->End(there, absl::OkStatus());
  }

  // On the mailroom's thread.
  void Tell(Event& event) {
    if (event.closed) {
      const std::shared_ptr<LaneHandler> handler = std::move(handler_);
      handler->OnClosed(event.lane, event.status);
      return;
    }
    if (handler_ == nullptr) return;
    if (event.opened) {
      handler_->OnOpened(event.lane);
      return;
    }
    {
      absl::MutexLock lock(&mutex_);
      ++traffic_.messages_received;
      for (const Record& record : event.records) traffic_.bytes_received += static_cast<int64_t>(kWireHeaderBytes + record.payload.size());
    }
    if (!event.records.empty()) handler_->OnMessage(event.lane, event.records);
  }

  bool closed() const { return closed_; }
  void SetClosed() { closed_ = true; }

 private:
  Mailroom& mailroom_;
  const std::string peer_;
  std::shared_ptr<LaneHandler> handler_;  // the mailroom's thread only
  mutable absl::Mutex mutex_;
  std::shared_ptr<InprocLane> other_ ABSL_GUARDED_BY(mutex_);
  std::vector<Record> corked_ ABSL_GUARDED_BY(mutex_);
  LaneTraffic traffic_ ABSL_GUARDED_BY(mutex_);
  bool ending_ ABSL_GUARDED_BY(mutex_) = false;
  std::atomic<bool> closed_ = false;  // OnClosed has returned
};

void Mailroom::Deliver() {
  const auto awake = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return !events_.empty() || stopped_; };
  while (true) {
    Event event;
    {
      absl::MutexLock lock(&mutex_);
      mutex_.Await(absl::Condition(&awake));
      if (events_.empty()) return;
      event = std::move(events_.front());
      events_.pop_front();
    }
    event.lane->Tell(event);
    if (event.closed) {
      event.lane->SetClosed();
      absl::MutexLock lock(&mutex_);
      --open_;
    }
  }
}

void Mailroom::AwaitClosed(const std::vector<std::shared_ptr<InprocLane>>& lanes) {
  const auto all_closed = [&lanes] {
    for (const std::shared_ptr<InprocLane>& lane : lanes) {
      if (!lane->closed()) return false;
    }
    return true;
  };
  absl::MutexLock lock(&mutex_);
  mutex_.Await(absl::Condition(&all_closed));
}

class InprocTransport final : public Transport {
 public:
  ~InprocTransport() override {
    EndAll(nullptr);
    mailroom_.AwaitNoLanes();
    mailroom_.Stop();
  }

  std::shared_ptr<Lane> Dial(const std::string& address, std::shared_ptr<LaneHandler> handler, absl::Duration /*deadline*/) override {
    auto near = std::make_shared<InprocLane>(mailroom_, address, std::move(handler));
    mailroom_.LaneOpened();
    absl::MutexLock lock(&mutex_);
    const auto found = listening_.find(address);
    if (found == listening_.end()) {
      near->End(absl::UnavailableError(fmt::format("nothing listens at {}", address)), absl::OkStatus());
      return near;
    }
    auto far = std::make_shared<InprocLane>(mailroom_, fmt::format("dialler {}", ++dialled_), found->second);
    mailroom_.LaneOpened();
    InprocLane::Join(near, far);
    mailroom_.Post({.lane = far, .opened = true, .records = {}, .closed = false, .status = absl::OkStatus()});
    std::erase_if(lanes_, [](const Pair& pair) { return pair.far.expired(); });
    lanes_.push_back({address, far});
    return near;
  }

  absl::StatusOr<std::unique_ptr<Listener>> Listen(const std::string& address, std::shared_ptr<LaneHandler> handler) override {
    absl::MutexLock lock(&mutex_);
    if (!listening_.emplace(address, std::move(handler)).second) {
      return absl::UnavailableError(fmt::format("cannot listen at {}: the address is in use", address));
    }
    return std::make_unique<InprocListener>(*this, address);
  }

 private:
  struct Pair {
    std::string address;
    std::weak_ptr<InprocLane> far;
  };

  class InprocListener final : public Listener {
   public:
    InprocListener(InprocTransport& transport, std::string address) : transport_(transport), address_(std::move(address)) {}
    ~InprocListener() override {
      {
        absl::MutexLock lock(&transport_.mutex_);
        transport_.listening_.erase(address_);
      }
      transport_.EndAll(&address_);
    }
    std::string address() const override { return address_; }

   private:
    InprocTransport& transport_;
    const std::string address_;
  };

  // Of one listener, or of everything; returns after the listeners' last OnClosed.
  void EndAll(const std::string* address) {
    std::vector<std::shared_ptr<InprocLane>> ended;
    {
      absl::MutexLock lock(&mutex_);
      for (const Pair& pair : lanes_) {
        if (address != nullptr && pair.address != *address) continue;
        if (auto far = pair.far.lock()) ended.push_back(std::move(far));
      }
      std::erase_if(lanes_, [&](const Pair& pair) { return address == nullptr || pair.address == *address; });
    }
    for (const std::shared_ptr<InprocLane>& lane : ended) lane->Abort();
    mailroom_.AwaitClosed(ended);
  }

  Mailroom mailroom_;
  absl::Mutex mutex_;
  std::map<std::string, std::shared_ptr<LaneHandler>> listening_ ABSL_GUARDED_BY(mutex_);
  std::vector<Pair> lanes_ ABSL_GUARDED_BY(mutex_);
  int dialled_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace

std::unique_ptr<Transport> MakeInprocTransport() { return std::make_unique<InprocTransport>(); }

}  // namespace trainyard::engine
