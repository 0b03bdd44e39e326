#include "trainer/transport/grpc_transport.h"

#include <fmt/format.h>
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <malloc.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <utility>

#include "absl/strings/str_replace.h"
#include "absl/synchronization/notification.h"
#include "trainer/base/clock.h"
#include "trainer/base/log.h"
#include "trainer/transport/grpc_log.h"
#include "trainer/transport/grpc_stream.h"
#include "trainer/transport/port_gate.h"

namespace trainyard::engine {
namespace {

constexpr char kMethod[] = "/trainyard.Transport/Stream";
constexpr int kWindowBytes = 8 << 20;     // what may be on its way in one stream
constexpr int kFrameBytes = 1 << 20;      // HTTP/2 data frames: as long as our messages
constexpr int kReadChunkBytes = 1 << 20;  // asked of the socket at once
constexpr int kHeapBytes = 32 << 20;      // longest block taken from the heap, and free memory that stays in it
constexpr int kMessageLimit = static_cast<int>(kMaxPayloadBytes) + (2 << 20);

int Milliseconds(absl::Duration duration) { return static_cast<int>(std::max<int64_t>(1, absl::ToInt64Milliseconds(duration))); }

// Bandwidth probes are off: windows are large from the start. A ping is due after a third of
// `silence` without a word, its answer after two thirds more.
grpc::ChannelArguments TuningArguments(const GrpcTransportOptions& options) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, kWindowBytes);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_FRAME_SIZE, kFrameBytes);
  arguments.SetInt(GRPC_ARG_HTTP2_WRITE_BUFFER_SIZE, kFrameBytes);
  arguments.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  arguments.SetInt(GRPC_ARG_TCP_READ_CHUNK_SIZE, kReadChunkBytes);
  arguments.SetInt(GRPC_ARG_TCP_MIN_READ_CHUNK_SIZE, kReadChunkBytes / 4);
  arguments.SetInt(GRPC_ARG_TCP_MAX_READ_CHUNK_SIZE, kReadChunkBytes);
  arguments.SetInt(GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH, kMessageLimit);
  arguments.SetInt(GRPC_ARG_MAX_SEND_MESSAGE_LENGTH, -1);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, Milliseconds(options.silence / 3));
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, Milliseconds(options.silence * 2 / 3));
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  arguments.SetInt(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 1);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PING_STRIKES, 0);
  return arguments;
}

// Keeps the threads that gRPC runs callbacks on. gRPC joins them when the last channel that has
// made a call is destroyed. It does so under a lock that every channel's first call takes. A
// callback would wait for a dialler's lock, the dialler for gRPC's, and gRPC for the callback. This
// channel is one more. It has no credentials, so it never connects (see CreateCustomChannel).
class CallbackThreads {
 public:
  CallbackThreads() {
    grpc::GenericStub stub(channel_);
    absl::Notification failed;
    stub.UnaryCall(&context_, kMethod, {}, &request_, &answer_, [&failed](const grpc::Status&) { failed.Notify(); });
    failed.WaitForNotification();
  }

 private:
  const std::shared_ptr<grpc::Channel> channel_ = grpc::CreateCustomChannel("", nullptr, {});
  grpc::ClientContext context_;
  const grpc::Slice nothing_;
  const grpc::ByteBuffer request_{&nothing_, 1};
  grpc::ByteBuffer answer_;
};

class DialledStream final : public GrpcStream, private grpc::ClientBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer> {
 public:
  DialledStream(std::string address, std::shared_ptr<StreamHandler> handler, const FlowOptions& flow, std::shared_ptr<StreamCount> count,
                std::shared_ptr<grpc::Channel> channel, bool tls)
      : GrpcStream(std::move(address), std::move(handler), flow.window_bytes, /*first_message_bytes=*/kMessageLimit, /*dialled=*/true,
                   std::move(count)),
        tls_(tls),
        call_(std::make_unique<Call>(std::move(channel))) {}

  void Start() {
    {
      absl::MutexLock lock(&mutex_);
      call_->context.set_wait_for_ready(false);
      call_->stub.PrepareBidiStreamingCall(&call_->context, kMethod, {}, this);
    }
    AddHold();  // until StartFinish: writes come from anywhere
    Open();
    StartCall();
  }

 protected:
  void StartReading(grpc::ByteBuffer* message) override { StartRead(message); }
  void StartWriting(const grpc::ByteBuffer* message) override { StartWrite(message); }
  void StartHalfClose() override { StartWritesDone(); }
  void StartFinish() override { RemoveHold(); }
  void Cancel() override ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { call_->context.TryCancel(); }
  void Release() override {
    std::unique_ptr<Call> call;
    absl::MutexLock lock(&mutex_);
    call = std::move(call_);  // which goes after the lock
  }

 private:
  struct Call {
    explicit Call(std::shared_ptr<grpc::Channel> channel) : stub(std::move(channel)) {}
    grpc::GenericStub stub;
    grpc::ClientContext context;
  };

  void OnReadDone(bool ok) override { OnRead(ok); }
  void OnWriteDone(bool ok) override { OnWritten(ok); }
  void OnWritesDoneDone(bool /*ok*/) override { OnHalfClosed(); }
  void OnDone(const grpc::Status& status) override {
    if (status.ok()) return OnEnded(absl::OkStatus());
    // How a listener with TLS treats others. It says no more than that, and nothing before.
    const bool cut = !tls_ && traffic().messages_received == 0 && status.error_message().find("reset by peer") != std::string::npos;
    OnEnded(absl::UnavailableError(
        fmt::format("{}: {}{}", peer(), status.error_message(), cut ? " (this replica has no certificate: does this job need TLS?)" : "")));
  }

  const bool tls_;
  std::unique_ptr<Call> call_ ABSL_GUARDED_BY(mutex_);  // null: ended
};

// gRPC escapes the brackets of IPv6 addresses, as URIs need it.
std::string ReadablePeer(const std::string& peer) { return absl::StrReplaceAll(peer, {{"%5B", "["}, {"%5D", "]"}}); }

class AcceptedStream final : public GrpcStream, private grpc::ServerGenericBidiReactor {
 public:
  AcceptedStream(grpc::GenericCallbackServerContext& context, std::shared_ptr<StreamHandler> handler, const FlowOptions& flow,
                 std::shared_ptr<StreamCount> count, std::shared_ptr<UntrustedConnections> untrusted)
      : GrpcStream(ReadablePeer(context.peer()), std::move(handler), flow.window_bytes, flow.first_message_bytes, /*dialled=*/false,
                   std::move(count)),
        untrusted_(std::move(untrusted)),
        context_(context) {}

  void Trust() override { untrusted_->Trust(peer()); }

  grpc::ServerGenericBidiReactor* Start() {
    untrusted_->Opened(peer());
    TellOpened();
    Open();
    if (context_.method() != kMethod) {
      Close(absl::UnimplementedError(fmt::format("there is no method {}, only {}", context_.method(), kMethod)));
    }
    return this;
  }

 protected:
  void StartReading(grpc::ByteBuffer* message) override { StartRead(message); }
  void StartWriting(const grpc::ByteBuffer* message) override { StartWrite(message); }
  void StartHalfClose() override {}
  void StartFinish() override { Finish(grpc::Status::OK); }
  void Cancel() override { context_.TryCancel(); }

 private:
  void OnReadDone(bool ok) override { OnRead(ok); }
  void OnWriteDone(bool ok) override { OnWritten(ok); }
  void OnCancel() override { lost_ = true; }
  void OnDone() override { OnEnded(lost_ ? absl::UnavailableError(fmt::format("{}: the stream was lost", peer())) : absl::OkStatus()); }

  const std::shared_ptr<UntrustedConnections> untrusted_;
  grpc::GenericCallbackServerContext& context_;  // lives until OnDone
  std::atomic<bool> lost_ = false;
};

// The streams of one transport or listener that have not ended.
template <typename S>
class StreamList {
 public:
  // False: no more are taken.
  bool Add(const std::shared_ptr<S>& stream) {
    absl::MutexLock lock(&mutex_);
    if (ended_) return false;
    if (streams_.size() >= 2 * live_) {
      std::erase_if(streams_, [](const std::weak_ptr<S>& old) { return old.expired(); });
      live_ = std::max<size_t>(streams_.size(), 16);
    }
    streams_.push_back(stream);
    return true;
  }
  void AbortAll() {
    std::vector<std::weak_ptr<S>> streams;
    {
      absl::MutexLock lock(&mutex_);
      ended_ = true;
      streams = std::move(streams_);
    }
    for (const std::weak_ptr<S>& weak : streams) {
      if (const std::shared_ptr<S> stream = weak.lock()) stream->Abort();
    }
  }

 private:
  absl::Mutex mutex_;
  std::vector<std::weak_ptr<S>> streams_ ABSL_GUARDED_BY(mutex_);
  size_t live_ ABSL_GUARDED_BY(mutex_) = 16;  // when they were last counted
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
};

// Of the files that this process may open, those that connections may hold which have said nothing
// yet.
size_t MostWaiting() {
  rlimit files{};
  if (getrlimit(RLIMIT_NOFILE, &files) != 0) return 256;
  return std::clamp<size_t>(files.rlim_cur / 4, 16, 4096);
}

// Makes streams of the calls that come in.
class Acceptor final : public grpc::CallbackGenericService {
 public:
  Acceptor(const FlowOptions& flow, std::shared_ptr<StreamHandler> handler, std::shared_ptr<UntrustedConnections> untrusted)
      : flow_(flow), handler_(std::move(handler)), untrusted_(std::move(untrusted)) {}

  StreamList<AcceptedStream>& streams() { return streams_; }
  StreamCount& count() { return *count_; }

 private:
  grpc::ServerGenericBidiReactor* CreateReactor(grpc::GenericCallbackServerContext* context) override {
    const auto stream = std::make_shared<AcceptedStream>(*context, handler_, flow_, count_, untrusted_);
    grpc::ServerGenericBidiReactor* const reactor = stream->Start();
    if (!streams_.Add(stream)) stream->Abort();
    return reactor;
  }

  const FlowOptions flow_;
  const std::shared_ptr<StreamHandler> handler_;
  const std::shared_ptr<UntrustedConnections> untrusted_;
  const std::shared_ptr<StreamCount> count_ = std::make_shared<StreamCount>();
  StreamList<AcceptedStream> streams_;
};

class GrpcListener final : public Listener {
 public:
  GrpcListener(GrpcTransportOptions options, std::shared_ptr<StreamHandler> handler)
      : options_(std::move(options)),
        handler_(handler),
        untrusted_(std::make_shared<UntrustedConnections>(options_.most_untrusted, options_.most_untrusted_streams)),
        acceptor_(std::make_unique<Acceptor>(options_.flow, std::move(handler), untrusted_)) {}

  absl::Status Start(const std::string& address) {
    grpc::ServerBuilder builder;
    const grpc::ChannelArguments tuning = TuningArguments(options_);
    const grpc_channel_args arguments = tuning.c_channel_args();
    for (size_t i = 0; i < arguments.num_args; ++i) {
      if (arguments.args[i].type == GRPC_ARG_INTEGER) builder.AddChannelArgument(arguments.args[i].key, arguments.args[i].value.integer);
    }
    builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, Milliseconds(options_.greeting_deadline));
    builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_IDLE_MS, Milliseconds(options_.greeting_deadline));  // idle: without a stream
    builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, 1);
    builder.SetMaxReceiveMessageSize(kMessageLimit);
    const bool tls = options_.listen_credentials != nullptr;
    connections_ =
        builder.experimental().AddExternalConnectionAcceptor(grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD,
                                                             tls ? options_.listen_credentials : grpc::InsecureServerCredentials());
    builder.RegisterCallbackGenericService(acceptor_.get());
    server_ = builder.BuildAndStart();
    if (server_ == nullptr) return absl::UnavailableError(fmt::format("cannot listen at {}: gRPC does not start", address));
    absl::StatusOr<std::unique_ptr<PortGate>> gate = PortGate::Listen(
        address, {.tls = tls, .deadline = options_.greeting_deadline, .most_waiting = MostWaiting()}, untrusted_,
        [this](int socket) {
          grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters connection;
          connection.fd = socket;
          connections_->HandleNewConnection(&connection);
        },
        [handler = handler_](const std::string& peer, const absl::Status& why) { handler->OnTurnedAway(peer, why); });
    if (!gate.ok()) return gate.status();
    gate_ = *std::move(gate);
    address_ = fmt::format("{}:{}", address.substr(0, address.rfind(':')), gate_->port());
    return absl::OkStatus();
  }

  ~GrpcListener() override {
    gate_ = nullptr;
    acceptor_->streams().AbortAll();
    if (server_ == nullptr) return;
    if (acceptor_->count().AwaitZero(options_.end_deadline, address_)) {
      server_->Shutdown(std::chrono::system_clock::now());
    } else {
      // Their destructors would wait for the streams.
      [[maybe_unused]] const auto* const server = server_.release();
      [[maybe_unused]] const auto* const acceptor = acceptor_.release();
    }
  }

  std::string address() const override { return address_; }

 private:
  const GrpcTransportOptions options_;
  const std::shared_ptr<StreamHandler> handler_;
  const std::shared_ptr<UntrustedConnections> untrusted_;
  std::unique_ptr<Acceptor> acceptor_;
  std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> connections_;  // into the server
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<PortGate> gate_;
  std::string address_;
};

class GrpcTransport final : public Transport {
 public:
  explicit GrpcTransport(GrpcTransportOptions options) : options_(std::move(options)) {}

  ~GrpcTransport() override {
    streams_.AbortAll();
    if (count_->AwaitZero(options_.end_deadline, "dialled streams")) return;
    [[maybe_unused]] const auto* const needed = threads_.release();  // by the streams that go on
  }

  std::shared_ptr<Stream> Dial(const std::string& address, std::shared_ptr<StreamHandler> handler, absl::Duration deadline) override {
    grpc::ChannelArguments arguments = TuningArguments(options_);
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);  // a connection of its own for every stream
    arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
    arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
    arguments.SetInt(GRPC_ARG_SERVICE_CONFIG_DISABLE_RESOLUTION, 1);
    arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, Milliseconds(deadline));
    if (!options_.peer_name.empty()) arguments.SetSslTargetNameOverride(options_.peer_name);
    const auto credentials = options_.dial_credentials != nullptr ? options_.dial_credentials : grpc::InsecureChannelCredentials();
    auto stream =
        std::make_shared<DialledStream>(address, std::move(handler), options_.flow, count_,
                                        grpc::CreateCustomChannel(address, credentials, arguments), options_.dial_credentials != nullptr);
    streams_.Add(stream);
    stream->Start();
    return stream;
  }

  absl::StatusOr<std::unique_ptr<Listener>> Listen(const std::string& address, std::shared_ptr<StreamHandler> handler) override {
    auto listener = std::make_unique<GrpcListener>(options_, std::move(handler));
    if (absl::Status status = listener->Start(address); !status.ok()) return status;
    return listener;
  }

 private:
  const GrpcTransportOptions options_;
  std::unique_ptr<CallbackThreads> threads_ = std::make_unique<CallbackThreads>();
  const std::shared_ptr<StreamCount> count_ = std::make_shared<StreamCount>();
  StreamList<DialledStream> streams_;
};

// Every connection is a file: the soft limit of many systems is 1024, and gRPC stops to accept at
// it.
void RaiseFileLimit() {
  rlimit files{};
  if (getrlimit(RLIMIT_NOFILE, &files) != 0 || files.rlim_cur == files.rlim_max) return;
  files.rlim_cur = files.rlim_max;
  (void)setrlimit(RLIMIT_NOFILE, &files);
}

}  // namespace

std::unique_ptr<Transport> MakeGrpcTransport(GrpcTransportOptions options) {
  // gRPC allocates what it receives, megabytes a step. From the heap, those pages stay; mapped one
  // by one, each would be faulted in anew.
  mallopt(M_MMAP_THRESHOLD, kHeapBytes);
  mallopt(M_TRIM_THRESHOLD, kHeapBytes);
  RaiseFileLimit();
  BoundGrpcLog();
  return std::make_unique<GrpcTransport>(std::move(options));
}

}  // namespace trainyard::engine
