#include "trainer/transport/inproc_transport.h"

#include <fmt/format.h>

#include <atomic>
#include <deque>
#include <limits>
#include <map>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "trainer/base/log.h"
#include "trainer/base/mutex.h"
#include "trainer/transport/flow_stream.h"

namespace trainyard::engine {
namespace {

class InprocStream;

// Something for a handler to be told, in order.
struct Event {
  enum class What { kOpened, kToSend, kArrived, kClosed };
  std::shared_ptr<InprocStream> stream;
  What what = What::kOpened;
  std::vector<Record> records;  // kArrived
  absl::Status status;          // kClosed
};

// The queue of all events and the thread that delivers them.
class Mailroom {
 public:
  Mailroom() : thread_([this] { Deliver(); }) {}
  ~Mailroom() {
    if (thread_.joinable()) thread_.join();
  }

  void Post(Event event) {
    MutexLock lock(&mutex_);
    events_.push_back(std::move(event));
  }
  // Deliver returns when the queue is empty.
  void Stop() {
    MutexLock lock(&mutex_);
    stopped_ = true;
  }
  // The same, for a thread that a handler holds up: it lives by itself until it has delivered
  // everything.
  void StopLater(std::shared_ptr<Mailroom> self) {
    MutexLock lock(&mutex_);
    stopped_ = true;
    self_ = std::move(self);
    thread_.detach();
  }
  void StreamOpened() {
    MutexLock lock(&mutex_);
    ++open_;
  }
  // False: not by the deadline.
  bool AwaitNoStreams(absl::Duration deadline) {
    MutexLock lock(&mutex_);
    return mutex_.AwaitWithTimeout(absl::Condition(+[](int* open) { return *open == 0; }, &open_), deadline);
  }
  // Returns after the OnClosed of each. False: not by the deadline.
  bool AwaitClosed(const std::vector<std::shared_ptr<InprocStream>>& streams, absl::Duration deadline);

 private:
  void Deliver();

  Mutex mutex_;
  std::deque<Event> events_ ABSL_GUARDED_BY(mutex_);
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  int open_ ABSL_GUARDED_BY(mutex_) = 0;
  std::shared_ptr<Mailroom> self_ ABSL_GUARDED_BY(mutex_);  // after StopLater
  std::thread thread_;
};

class InprocStream final : public FlowStream {
 public:
  InprocStream(Mailroom& mailroom, std::string peer, std::shared_ptr<StreamHandler> handler, const FlowOptions& flow,
               size_t first_message_bytes)
      : FlowStream(std::move(peer), std::move(handler), flow.window_bytes, first_message_bytes), mailroom_(mailroom) {}

  // Both ends, before anything is sent.
  static void Join(const std::shared_ptr<InprocStream>& a, const std::shared_ptr<InprocStream>& b) {
    {
      absl::MutexLock lock(&a->end_mutex_);
      a->other_ = b;
    }
    absl::MutexLock lock(&b->end_mutex_);
    b->other_ = a;
  }

  void Close(const absl::Status& status) override {
    if (StartClosing(status)) Pump(What::kAll);
  }

  void Abort() override {
    // First: a stream whose queue is dropped looks to Transfer as if it had sent all and ended
    // well.
    End(absl::OkStatus(), absl::UnavailableError("the other side ended the stream"));
    StartClosing(absl::OkStatus());
    DropQueue();
  }

  // Tells both handlers, once.
  void End(const absl::Status& here, const absl::Status& there) {
    std::shared_ptr<InprocStream> other;
    {
      absl::MutexLock lock(&end_mutex_);
      if (ended_) return;
      ended_ = true;
      other = std::exchange(other_, nullptr);
      mailroom_.Post({.stream = Self(), .what = Event::What::kClosed, .records = {}, .status = here});
    }
    if (other != nullptr) other->End(there, absl::OkStatus());
  }

  // On the mailroom's thread.
  void Tell(Event& event) {
    if (handler_ == nullptr) return;
    switch (event.what) {
      case Event::What::kOpened:
        return handler_->OnOpened(event.stream);
      case Event::What::kToSend:
        return Transfer();
      case Event::What::kArrived: {
        size_t bytes = 0;
        for (const Record& record : event.records) bytes += static_cast<size_t>(CreditOf(record.header));
        return Receive(std::move(event.records), bytes);
      }
      case Event::What::kClosed: {
        StartClosing(absl::OkStatus());
        DropQueue();
        absl::Status status;
        {
          absl::MutexLock lock(&mutex_);
          status = reason_.ok() ? event.status : reason_;
        }
        const std::shared_ptr<StreamHandler> handler = std::move(handler_);
        return handler->OnClosed(event.stream, status);
      }
    }
  }

  bool closed() const { return closed_; }
  void SetClosed() { closed_ = true; }

 private:
  std::shared_ptr<InprocStream> Self() { return std::static_pointer_cast<InprocStream>(shared_from_this()); }

  // The mailroom's thread, which holds no locks, looks what there is to send.
  void Pump(What /*what*/) override {
    if (!pumping_.exchange(true)) mailroom_.Post({.stream = Self(), .what = Event::What::kToSend, .records = {}, .status = {}});
  }

  void Transfer() {
    pumping_ = false;
    while (true) {
      std::shared_ptr<InprocStream> other;
      {
        absl::MutexLock lock(&end_mutex_);
        other = other_;
      }
      std::vector<Record> records;
      bool over = false;
      {
        absl::MutexLock lock(&mutex_);
        over = closing_ && queue_.empty();
        if (other == nullptr || (!over && !HasMessage(What::kAll))) return;
        if (!over) records = TakeMessage(What::kAll);
      }
      if (over) return End(absl::OkStatus(), absl::OkStatus());
      FillLate(records);
      // Copied, as a wire would: the receiver never holds the sender's memory.
      std::vector<Record> copies;
      for (const Record& record : records) copies.push_back({record.header, Payload::OfText(record.payload.ToString())});
      mailroom_.Post({.stream = other, .what = Event::What::kArrived, .records = std::move(copies), .status = {}});
    }
  }

  Mailroom& mailroom_;
  std::atomic<bool> pumping_ = false;  // an event to send is on its way
  absl::Mutex end_mutex_;
  std::shared_ptr<InprocStream> other_ ABSL_GUARDED_BY(end_mutex_);
  bool ended_ ABSL_GUARDED_BY(end_mutex_) = false;
  std::atomic<bool> closed_ = false;  // OnClosed has returned
};

void Mailroom::Deliver() {
  const auto awake = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return !events_.empty() || stopped_; };
  std::shared_ptr<Mailroom> self;  // let go behind the last look at this
  while (true) {
    Event event;
    {
      MutexLock lock(&mutex_);
      mutex_.Await(absl::Condition(&awake));
      if (events_.empty()) {
        self = std::move(self_);
        return;
      }
      event = std::move(events_.front());
      events_.pop_front();
    }
    event.stream->Tell(event);
    if (event.what == Event::What::kClosed) {
      event.stream->SetClosed();
      MutexLock lock(&mutex_);
      --open_;
    }
  }
}

bool Mailroom::AwaitClosed(const std::vector<std::shared_ptr<InprocStream>>& streams, absl::Duration deadline) {
  const auto all_closed = [&streams] {
    for (const std::shared_ptr<InprocStream>& stream : streams) {
      if (!stream->closed()) return false;
    }
    return true;
  };
  MutexLock lock(&mutex_);
  return mutex_.AwaitWithTimeout(absl::Condition(&all_closed), deadline);
}

class InprocTransport final : public Transport {
 public:
  InprocTransport(const FlowOptions& flow, absl::Duration end_deadline) : flow_(flow), end_deadline_(end_deadline) {}

  ~InprocTransport() override {
    const bool ended = EndAll(nullptr) && mailroom_->AwaitNoStreams(end_deadline_);
    if (ended) {
      mailroom_->Stop();
    } else {
      mailroom_->StopLater(mailroom_);
    }
  }

  std::shared_ptr<Stream> Dial(const std::string& address, std::shared_ptr<StreamHandler> handler, absl::Duration /*deadline*/) override {
    auto near = std::make_shared<InprocStream>(*mailroom_, address, std::move(handler), flow_, std::numeric_limits<size_t>::max());
    mailroom_->StreamOpened();
    absl::MutexLock lock(&mutex_);
    const auto found = listening_.find(address);
    if (found == listening_.end()) {
      near->End(absl::UnavailableError(fmt::format("nothing listens at {}", address)), absl::OkStatus());
      return near;
    }
    auto far =
        std::make_shared<InprocStream>(*mailroom_, fmt::format("dialler {}", ++dialled_), found->second, flow_, flow_.first_message_bytes);
    mailroom_->StreamOpened();
    InprocStream::Join(near, far);
    mailroom_->Post({.stream = far, .what = Event::What::kOpened, .records = {}, .status = {}});
    std::erase_if(streams_, [](const Pair& pair) { return pair.far.expired(); });
    streams_.push_back({address, far});
    return near;
  }

  absl::StatusOr<std::unique_ptr<Listener>> Listen(const std::string& address, std::shared_ptr<StreamHandler> handler) override {
    absl::MutexLock lock(&mutex_);
    if (!listening_.emplace(address, std::move(handler)).second) {
      return absl::UnavailableError(fmt::format("cannot listen at {}: the address is in use", address));
    }
    return std::make_unique<InprocListener>(*this, address);
  }

 private:
  struct Pair {
    std::string address;
    std::weak_ptr<InprocStream> far;
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
  // False, and in the log, where they did not end in time.
  bool EndAll(const std::string* address) {
    std::vector<std::shared_ptr<InprocStream>> ended;
    {
      absl::MutexLock lock(&mutex_);
      for (const Pair& pair : streams_) {
        if (address != nullptr && pair.address != *address) continue;
        if (auto far = pair.far.lock()) ended.push_back(std::move(far));
      }
      std::erase_if(streams_, [&](const Pair& pair) { return address == nullptr || pair.address == *address; });
    }
    for (const std::shared_ptr<InprocStream>& stream : ended) stream->Abort();
    if (mailroom_->AwaitClosed(ended, end_deadline_)) return true;
    LogError("streams of '{}' have not ended within {}; their memory is given up", address != nullptr ? *address : "every address",
             absl::FormatDuration(end_deadline_));
    return false;
  }

  const FlowOptions flow_;
  const absl::Duration end_deadline_;
  const std::shared_ptr<Mailroom> mailroom_ = std::make_shared<Mailroom>();
  absl::Mutex mutex_;
  std::map<std::string, std::shared_ptr<StreamHandler>> listening_ ABSL_GUARDED_BY(mutex_);
  std::vector<Pair> streams_ ABSL_GUARDED_BY(mutex_);
  int dialled_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace

std::unique_ptr<Transport> MakeInprocTransport(const FlowOptions& flow, absl::Duration end_deadline) {
  return std::make_unique<InprocTransport>(flow, end_deadline);
}

}  // namespace trainyard::engine
