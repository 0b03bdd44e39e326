#include "trainer/transport/grpc_transport.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <thread>
#include <utility>

#include "trainer/transport/grpc_lane.h"

namespace trainyard::engine {
namespace {

constexpr char kMethod[] = "/trainyard.Transport/Lane";
constexpr int kWindowBytes = 8 << 20;     // what may be on its way in one lane
constexpr int kFrameBytes = 1 << 20;      // HTTP/2 data frames: as long as our messages
constexpr int kReadChunkBytes = 1 << 20;  // asked of the socket at once
constexpr int kHeapBytes = 32 << 20;      // longest block taken from the heap, and free memory that stays in it
constexpr int kMessageLimit = static_cast<int>(kMaxPayloadBytes) + (2 << 20);

// Bandwidth probes are off: windows are large from the start.
grpc::ChannelArguments TuningArguments() {
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
  return arguments;
}

// Threads that complete events of one completion queue each.
void Drain(grpc::CompletionQueue& queue) {
  void* event = nullptr;
  bool ok = false;
  while (queue.Next(&event, &ok)) static_cast<GrpcEvent*>(event)->Complete(ok);
}

class DialledLane final : public GrpcLane {
 public:
  DialledLane(std::string address, std::shared_ptr<LaneHandler> handler, GrpcLaneCount& count, std::shared_ptr<grpc::Channel> channel)
      : GrpcLane(std::move(address), std::move(handler), count), stub_(std::move(channel)) {}

  void Start(grpc::CompletionQueue& queue) {
    KeepAlive();
    context_->set_wait_for_ready(false);
    stream_ = stub_->PrepareCall(context_.get(), kMethod, &queue);
    stream_->StartCall(&started_event_);
  }

 protected:
  void StartRead(grpc::ByteBuffer* message, GrpcEvent* event) override { stream_->Read(message, event); }
  void StartWrite(const grpc::ByteBuffer& message, GrpcEvent* event) override { stream_->Write(message, event); }
  bool StartHalfClose(GrpcEvent* event) override {
    stream_->WritesDone(event);
    return true;
  }
  void StartFinish(GrpcEvent* event) override { stream_->Finish(&status_, event); }
  absl::Status FinishStatus(bool /*ok*/) override {
    if (status_.ok()) return absl::OkStatus();
    return absl::UnavailableError(fmt::format("{}: {}", peer(), status_.error_message()));
  }
  void Cancel() override { context_->TryCancel(); }
  void Release() override {
    stream_.reset();
    context_.reset();
    stub_.reset();
  }
  bool FinishesFirst() const override { return false; }

 private:
  class StartedEvent final : public GrpcEvent {
   public:
    explicit StartedEvent(DialledLane& lane) : lane_(lane) {}
    void Complete(bool ok) override { ok ? lane_.OnStarted() : lane_.OnStartFailed(); }

   private:
    DialledLane& lane_;
  };

  StartedEvent started_event_{*this};
  std::optional<grpc::GenericStub> stub_;
  std::unique_ptr<grpc::ClientContext> context_ = std::make_unique<grpc::ClientContext>();
  grpc::Status status_;
  std::unique_ptr<grpc::GenericClientAsyncReaderWriter> stream_;
};

// A call that was accepted, or that waits to be.
struct Call {
  grpc::GenericServerContext context;
  grpc::GenericServerAsyncReaderWriter stream{&context};
};

class AcceptedLane final : public GrpcLane {
 public:
  AcceptedLane(std::unique_ptr<Call> call, std::shared_ptr<LaneHandler> handler, GrpcLaneCount& count)
      : GrpcLane(call->context.peer(), std::move(handler), count), call_(std::move(call)) {}

  void Start() {
    KeepAlive();
    OnAccepted();
    OnStarted();
    if (call_->context.method() != kMethod) {
      Close(absl::UnimplementedError(fmt::format("there is no method {}, only {}", call_->context.method(), kMethod)));
    }
  }

 protected:
  void StartRead(grpc::ByteBuffer* message, GrpcEvent* event) override { call_->stream.Read(message, event); }
  void StartWrite(const grpc::ByteBuffer& message, GrpcEvent* event) override { call_->stream.Write(message, event); }
  bool StartHalfClose(GrpcEvent* /*event*/) override { return false; }
  void StartFinish(GrpcEvent* event) override { call_->stream.Finish(grpc::Status::OK, event); }
  absl::Status FinishStatus(bool ok) override {
    return ok ? absl::OkStatus() : absl::UnavailableError(fmt::format("{}: the lane was lost", peer()));
  }
  void Cancel() override { call_->context.TryCancel(); }
  void Release() override { call_.reset(); }
  bool FinishesFirst() const override { return true; }

 private:
  std::unique_ptr<Call> call_;
};

// Tries what gRPC is about to do, since gRPC does not tell why it failed. OK where only gRPC can know (names, IPv6, unix:).
absl::Status ProbeListening(const std::string& address) {
  const size_t colon = address.rfind(':');
  sockaddr_in wanted{};
  wanted.sin_family = AF_INET;
  if (colon == std::string::npos || inet_pton(AF_INET, address.substr(0, colon).c_str(), &wanted.sin_addr) != 1) return absl::OkStatus();
  wanted.sin_port = htons(static_cast<uint16_t>(std::strtoul(address.c_str() + colon + 1, nullptr, 10)));
  const int socket_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  int error = errno;
  if (socket_fd >= 0) {
    const int one = 1;
    setsockopt(socket_fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    error = 0;
    if (bind(socket_fd, reinterpret_cast<const sockaddr*>(&wanted), sizeof wanted) != 0 || listen(socket_fd, 1) != 0) error = errno;
    close(socket_fd);
  }
  if (error == 0) return absl::OkStatus();
  return absl::UnavailableError(fmt::format("cannot listen at {}: {}{}", address, std::strerror(error),
                                            error == EADDRINUSE ? " (another process uses the port; stop it or choose another port)" : ""));
}

class GrpcListener final : public Listener {
 public:
  explicit GrpcListener(std::shared_ptr<LaneHandler> handler) : handler_(std::move(handler)) {}

  absl::Status Start(const std::string& address, int io_threads) {
    if (absl::Status status = ProbeListening(address); !status.ok()) return status;
    grpc::ServerBuilder builder;
    const grpc::ChannelArguments tuning = TuningArguments();
    const grpc_channel_args arguments = tuning.c_channel_args();
    for (size_t i = 0; i < arguments.num_args; ++i) {
      if (arguments.args[i].type == GRPC_ARG_INTEGER) builder.AddChannelArgument(arguments.args[i].key, arguments.args[i].value.integer);
    }
    builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);  // a second server at the same port must fail
    builder.SetMaxReceiveMessageSize(kMessageLimit);
    int port = 0;
    builder.AddListeningPort(address, grpc::InsecureServerCredentials(), &port);
    builder.RegisterAsyncGenericService(&service_);
    for (int i = 0; i < io_threads; ++i) queues_.push_back(builder.AddCompletionQueue());
    server_ = builder.BuildAndStart();
    if (server_ == nullptr || (port == 0 && !address.starts_with("unix:"))) {
      return absl::UnavailableError(fmt::format("cannot listen at {}: not an address of this machine, or in use", address));
    }
    address_ = address.starts_with("unix:") ? address : fmt::format("{}:{}", address.substr(0, address.rfind(':')), port);
    for (const std::unique_ptr<grpc::ServerCompletionQueue>& queue : queues_) {
      acceptors_.push_back(std::make_unique<Acceptor>(*this, *queue));
      acceptors_.back()->Accept();
      threads_.emplace_back([&queue = *queue] { Drain(queue); });
    }
    return absl::OkStatus();
  }

  ~GrpcListener() override {
    if (server_ != nullptr) server_->Shutdown(std::chrono::system_clock::now());
    count_.AwaitZero();
    for (const std::unique_ptr<grpc::ServerCompletionQueue>& queue : queues_) queue->Shutdown();
    if (threads_.empty()) {
      for (const std::unique_ptr<grpc::ServerCompletionQueue>& queue : queues_) Drain(*queue);
    }
    for (std::thread& thread : threads_) thread.join();
  }

  std::string address() const override { return address_; }

 private:
  // Keeps one call requested per queue; counted as a lane, since its request is an operation of the queue.
  class Acceptor final : public GrpcEvent {
   public:
    Acceptor(GrpcListener& listener, grpc::ServerCompletionQueue& queue) : listener_(listener), queue_(queue) { listener_.count_.Add(); }
    void Accept() {
      call_ = std::make_unique<Call>();
      listener_.service_.RequestCall(&call_->context, &call_->stream, &queue_, &queue_, this);
    }
    void Complete(bool ok) override {
      if (!ok) {
        listener_.count_.Remove();
        return;
      }
      const auto lane = std::make_shared<AcceptedLane>(std::move(call_), listener_.handler_, listener_.count_);
      Accept();
      lane->Start();
    }

   private:
    GrpcListener& listener_;
    grpc::ServerCompletionQueue& queue_;
    std::unique_ptr<Call> call_;
  };

  const std::shared_ptr<LaneHandler> handler_;
  GrpcLaneCount count_;
  grpc::AsyncGenericService service_;
  std::vector<std::unique_ptr<grpc::ServerCompletionQueue>> queues_;
  std::unique_ptr<grpc::Server> server_;
  std::vector<std::unique_ptr<Acceptor>> acceptors_;
  std::string address_;
  std::vector<std::thread> threads_;
};

class GrpcTransport final : public Transport {
 public:
  explicit GrpcTransport(const GrpcTransportOptions& options) : io_threads_(std::max(1, options.io_threads)), queues_(io_threads_) {
    for (grpc::CompletionQueue& queue : queues_) threads_.emplace_back([&queue] { Drain(queue); });
  }

  ~GrpcTransport() override {
    std::vector<std::weak_ptr<DialledLane>> lanes;
    {
      absl::MutexLock lock(&mutex_);
      lanes = std::move(lanes_);
    }
    for (const std::weak_ptr<DialledLane>& weak : lanes) {
      if (const std::shared_ptr<DialledLane> lane = weak.lock()) lane->Abort();
    }
    count_.AwaitZero();
    for (grpc::CompletionQueue& queue : queues_) queue.Shutdown();
    for (std::thread& thread : threads_) thread.join();
  }

  std::shared_ptr<Lane> Dial(const std::string& address, std::shared_ptr<LaneHandler> handler, absl::Duration deadline) override {
    grpc::ChannelArguments arguments = TuningArguments();
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);  // a connection of its own for every lane
    arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
    arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
    arguments.SetInt(GRPC_ARG_SERVICE_CONFIG_DISABLE_RESOLUTION, 1);
    arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, static_cast<int>(std::max<int64_t>(1, absl::ToInt64Milliseconds(deadline))));
    auto lane = std::make_shared<DialledLane>(address, std::move(handler), count_,
                                              grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments));
    size_t queue = 0;
    {
      absl::MutexLock lock(&mutex_);
      std::erase_if(lanes_, [](const std::weak_ptr<DialledLane>& old) { return old.expired(); });
      lanes_.push_back(lane);
      queue = dialled_++ % queues_.size();
    }
    lane->Start(queues_[queue]);
    return lane;
  }

  absl::StatusOr<std::unique_ptr<Listener>> Listen(const std::string& address, std::shared_ptr<LaneHandler> handler) override {
    auto listener = std::make_unique<GrpcListener>(std::move(handler));
    if (absl::Status status = listener->Start(address, io_threads_); !status.ok()) return status;
    return listener;
  }

 private:
  const int io_threads_;
  GrpcLaneCount count_;
  std::vector<grpc::CompletionQueue> queues_;
  std::vector<std::thread> threads_;
  absl::Mutex mutex_;
  std::vector<std::weak_ptr<DialledLane>> lanes_ ABSL_GUARDED_BY(mutex_);
  size_t dialled_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace

std::unique_ptr<Transport> MakeGrpcTransport(const GrpcTransportOptions& options) {
  // gRPC allocates what it receives, megabytes a step. From the heap, those pages stay; mapped one by one, each would be faulted in anew.
  mallopt(M_MMAP_THRESHOLD, kHeapBytes);
  mallopt(M_TRIM_THRESHOLD, kHeapBytes);
  return std::make_unique<GrpcTransport>(options);
}

}  // namespace trainyard::engine
