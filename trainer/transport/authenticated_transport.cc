#include "trainer/transport/authenticated_transport.h"

#include <fmt/format.h>

#include <atomic>
#include <map>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "trainer/base/check.h"
#include "trainer/base/status_macros.h"
#include "trainer/transport/mutual_challenge.h"

namespace trainyard::engine {
namespace {

// The dialler's end: a stream to its user, a handler to the stream below. Both hold each other
// until OnClosed.
class ProvingStream final : public Stream, public StreamHandler, public std::enable_shared_from_this<ProvingStream> {
 public:
  ProvingStream(const JobKey& key, const Nonce& nonce, std::string address, std::shared_ptr<StreamHandler> handler)
      : challenge_(key, nonce), address_(std::move(address)), handler_(std::move(handler)) {}

  void Dial(Transport& transport, absl::Duration deadline) {
    const std::shared_ptr<Stream> below = transport.Dial(address_, shared_from_this(), deadline);
    below->Send({challenge_.Challenge()});
    absl::MutexLock lock(&mutex_);
    below_ = below;
  }

  void Send(std::vector<Record> records, bool more) override {
    if (!proven_.load(std::memory_order_acquire)) {
      absl::MutexLock lock(&mutex_);
      if (closing_) return;
      if (!proven_.load(std::memory_order_relaxed)) {
        for (Record& record : records) waiting_.push_back(std::move(record));
        return;
      }
    }
    below()->Send(std::move(records), more);
  }

  void Close(const absl::Status& status) override {
    {
      absl::MutexLock lock(&mutex_);
      if (std::exchange(closing_, true)) return;
      if (status.ok() && !waiting_.empty()) return;  // when they are sent
      waiting_.clear();
    }
    below()->Close(status);
  }

  void Abort() override { below()->Abort(); }
  void SetWindow(size_t bytes) override { below()->SetWindow(bytes); }
  void LendIfStarved() override { below()->LendIfStarved(); }
  void HastenReturns() override { below()->HastenReturns(); }
  bool Poll() override { return below()->Poll(); }
  void EndPolling() override { below()->EndPolling(); }
  bool shares_memory() const override { return below()->shares_memory(); }
  std::string peer() const override { return address_; }
  StreamTraffic traffic() const override { return below()->traffic(); }

  void OnMessage(const std::shared_ptr<Stream>& stream, std::span<Record> records) override {
    if (proven_.load(std::memory_order_acquire)) {
      handler_->OnMessage(shared_from_this(), records);
      return;
    }
    absl::StatusOr<Record> proof = challenge_.Answer(records.front());
    if (!proof.ok()) {
      {
        absl::MutexLock lock(&mutex_);
        failure_ = absl::UnavailableError(
            fmt::format("{} does not prove that it belongs to this job: {}", address_, std::string(proof.status().message())));
      }
      stream->Close(proof.status());
      return;
    }
    bool close = false;
    {
      absl::MutexLock lock(&mutex_);
      below_ = stream;  // Dial may not have returned yet
      std::vector<Record> first;
      first.push_back(*std::move(proof));
      for (Record& record : waiting_) first.push_back(std::move(record));
      waiting_.clear();
      stream->Send(std::move(first));
      proven_.store(true, std::memory_order_release);
      close = closing_;
    }
    if (close) {
      stream->Close(absl::OkStatus());
    } else if (records.size() > 1) {
      handler_->OnMessage(shared_from_this(), records.subspan(1));
    }
  }

  void OnClosed(const std::shared_ptr<Stream>& stream, const absl::Status& status) override {
    absl::Status reason = status;
    {
      absl::MutexLock lock(&mutex_);
      below_ = stream;  // which may have ended before Dial returned
      if (!failure_.ok()) reason = failure_;
      waiting_.clear();
    }
    std::exchange(handler_, nullptr)->OnClosed(shared_from_this(), reason);
  }

 private:
  std::shared_ptr<Stream> below() const {
    absl::MutexLock lock(&mutex_);
    return below_;
  }

  const DiallerChallenge challenge_;
  const std::string address_;
  std::shared_ptr<StreamHandler> handler_;  // until OnClosed, which ends the circle of owners
  std::atomic<bool> proven_ = false;

  mutable absl::Mutex mutex_;
  std::shared_ptr<Stream> below_ ABSL_GUARDED_BY(mutex_);
  std::vector<Record> waiting_ ABSL_GUARDED_BY(mutex_);  // until the key is proven
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status failure_ ABSL_GUARDED_BY(mutex_);
};

// The listener's end, of all its streams.
class CheckingHandler final : public StreamHandler {
 public:
  CheckingHandler(std::function<JobKey()> key, std::shared_ptr<StreamHandler> handler)
      : key_(std::move(key)), handler_(std::move(handler)) {}

  void OnOpened(const std::shared_ptr<Stream>& stream) override {
    const absl::StatusOr<Nonce> nonce = MakeNonce();
    if (nonce.ok()) {
      const JobKey key = key_();
      absl::MutexLock lock(&mutex_);
      unproven_.emplace(stream.get(), ListenerChallenge(key, *nonce));
    }
    handler_->OnOpened(stream);
    if (!nonce.ok()) stream->Close(nonce.status());
  }

  void OnTurnedAway(const std::string& peer, const absl::Status& why) override { handler_->OnTurnedAway(peer, why); }

  void OnMessage(const std::shared_ptr<Stream>& stream, std::span<Record> records) override {
    bool proven = false;
    absl::StatusOr<size_t> used = Check(*stream, records, proven);
    if (!used.ok()) {
      {
        absl::MutexLock lock(&mutex_);
        refused_.try_emplace(stream.get(), used.status());
      }
      stream->Close(used.status());
    } else if (proven && *used < records.size()) {
      handler_->OnMessage(stream, records.subspan(*used));
    }
  }

  // A stream without proof ends with the reason, however it ended below.
  void OnClosed(const std::shared_ptr<Stream>& stream, const absl::Status& status) override {
    absl::Status reason = status;
    {
      absl::MutexLock lock(&mutex_);
      unproven_.erase(stream.get());
      if (const auto refused = refused_.extract(stream.get())) reason = refused.mapped();
    }
    handler_->OnClosed(stream, reason);
  }

 private:
  // How many of the records belonged to the challenge.
  absl::StatusOr<size_t> Check(Stream& stream, std::span<Record> records, bool& proven) {
    absl::MutexLock lock(&mutex_);
    const auto found = unproven_.find(&stream);
    proven = found == unproven_.end();
    if (proven) return 0;
    size_t used = 0;
    if (!found->second.answered()) {
      TY_ASSIGN_OR_RETURN(Record proof, found->second.Answer(records[used++]));
      stream.Send({std::move(proof)});
      if (used == records.size()) return used;
    }
    TY_RETURN_IF_ERROR(found->second.Check(records[used++]));
    unproven_.erase(found);
    proven = true;
    return used;
  }

  const std::function<JobKey()> key_;
  const std::shared_ptr<StreamHandler> handler_;
  absl::Mutex mutex_;
  std::map<const Stream*, ListenerChallenge> unproven_ ABSL_GUARDED_BY(mutex_);
  std::map<const Stream*, absl::Status> refused_ ABSL_GUARDED_BY(mutex_);
};

class AuthenticatedTransport final : public Transport {
 public:
  AuthenticatedTransport(std::unique_ptr<Transport> transport, std::function<JobKey()> key)
      : key_(std::move(key)), transport_(std::move(transport)) {}

  std::shared_ptr<Stream> Dial(const std::string& address, std::shared_ptr<StreamHandler> handler, absl::Duration deadline) override {
    const absl::StatusOr<Nonce> nonce = MakeNonce();
    TY_CHECK(nonce.ok());
    auto stream = std::make_shared<ProvingStream>(key_(), *nonce, address, std::move(handler));
    stream->Dial(*transport_, deadline);
    return stream;
  }

  absl::StatusOr<std::unique_ptr<Listener>> Listen(const std::string& address, std::shared_ptr<StreamHandler> handler) override {
    return transport_->Listen(address, std::make_shared<CheckingHandler>(key_, std::move(handler)));
  }

 private:
  const std::function<JobKey()> key_;
  const std::unique_ptr<Transport> transport_;
};

}  // namespace

std::unique_ptr<Transport> MakeAuthenticatedTransport(std::unique_ptr<Transport> transport, std::function<JobKey()> key) {
  return std::make_unique<AuthenticatedTransport>(std::move(transport), std::move(key));
}

}  // namespace trainyard::engine
