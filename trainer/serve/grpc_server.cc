#include "trainer/serve/grpc_server.h"

#include <fmt/format.h>
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/impl/codegen/proto_utils.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <utility>

#include "absl/time/clock.h"
#include "trainer/base/clock.h"
#include "trainer/serve/address_text.h"
#include "trainer/serve/grpc_messages.h"
#include "trainer/serve/http_api.h"
#include "trainer/transport/grpc_log.h"

namespace trainyard::engine {
namespace {

constexpr std::string_view kServiceName = "/inference.GRPCInferenceService/";
constexpr int kHandshakeMs = 10'000;
constexpr int kMostUnread = 1024;  // answers on their way: of clients that do not read them
constexpr absl::Duration kTurnAway = absl::Milliseconds(100);
constexpr int kIdleMs = 300'000;  // of a connection without a call

grpc::Status StatusOf(const absl::Status& status) {
  return {static_cast<grpc::StatusCode>(status.code()), std::string(status.message())};  // the codes are the same
}

template <typename Message>
bool Parse(grpc::ByteBuffer& buffer, Message& message) {
  grpc::ProtoBufferReader reader(&buffer);
  return message.ParseFromZeroCopyStream(&reader);
}

// What all calls share.
struct Calls {
  ModelService& service;
  const int most;
  std::atomic<int> running = 0;  // without an answer
  std::atomic<int> open = 0;     // with those whose answer is on its way
  std::atomic<bool> ending = false;
};

// One unary call. It deletes itself. A client that has its answer may ask again before gRPC calls
// OnDone, so the call's place is free from its answer on.
class Call final : public grpc::ServerGenericBidiReactor {
 public:
  Call(Calls& calls, const grpc::GenericCallbackServerContext& context) : calls_(calls), context_(context), begin_(RealClock().Now()) {
    const bool few_open = calls_.open.fetch_add(1) < calls_.most + kMostUnread;
    const bool ending = calls_.ending;
    running_ = few_open && !ending;
    if (ending) {
      End({grpc::StatusCode::UNAVAILABLE, "the server is about to end; ask again, another one may answer"});
    } else if (!few_open) {
      Refuse("clients do not read the answers of their calls");
    } else if (calls_.running.fetch_add(1) >= calls_.most) {
      Refuse(fmt::format("{} calls run, as many as may (--max-connections)", calls_.most));
    } else {
      StartRead(&request_);
    }
  }

 private:
  void OnReadDone(bool ok) override {
    if (!ok) return End({grpc::StatusCode::INVALID_ARGUMENT, "the call has no message, or one that is too large (--max-request)"});
    std::string_view method = context_.method();
    if (!method.starts_with(kServiceName)) return NoMethod();
    method.remove_prefix(kServiceName.size());
    if (method == "ModelInfer") return Infer();
    if (method == "ServerLive") return Live();
    if (method == "ServerReady") return Ready(calls_.service.ready());
    if (method == "ServerMetadata") return Answer(ServerMetadata());
    if (method == "ModelReady") return OfModel(/*metadata=*/false);
    if (method == "ModelMetadata") return OfModel(/*metadata=*/true);
    NoMethod();
  }
  void OnWriteDone(bool /*ok*/) override {}
  void OnDone() override {
    LeavePlace();
    calls_.open.fetch_sub(1);
    delete this;
  }

  void Refuse(const std::string& why) { End({grpc::StatusCode::RESOURCE_EXHAUSTED, why + "; try again later"}); }
  void LeavePlace() {
    if (std::exchange(running_, false)) calls_.running.fetch_sub(1);
  }
  // The last thing that is done with this call: OnDone may follow at once.
  void End(const grpc::Status& status) {
    LeavePlace();
    Finish(status);
  }

  void NoMethod() {
    End({grpc::StatusCode::UNIMPLEMENTED,
         fmt::format("found the method {}, expected one of inference.GRPCInferenceService", context_.method().substr(0, 100))});
  }
  void Damaged() { End({grpc::StatusCode::INVALID_ARGUMENT, "the message cannot be parsed, expected the method's protobuf"}); }

  template <typename Message>
  void Answer(const Message& message) {
    bool own = false;
    answer_.Clear();
    const grpc::Status status = grpc::GenericSerialize<grpc::ProtoBufferWriter, Message>(message, &answer_, &own);
    if (!status.ok()) return End(status);
    LeavePlace();
    StartWriteAndFinish(&answer_, {}, grpc::Status::OK);
  }
  void Live() {
    inference::ServerLiveResponse response;
    response.set_live(true);
    Answer(response);
  }
  void Ready(bool ready) {
    inference::ReadyResponse response;
    response.set_ready(ready);
    Answer(response);
  }
  void OfModel(bool metadata) {
    inference::ModelRequest message;
    if (!Parse(request_, message)) return Damaged();
    const absl::StatusOr<std::shared_ptr<ServedModel>> model = calls_.service.Find(message.name(), message.version());
    if (!metadata && absl::IsUnavailable(model.status())) return Ready(false);
    if (!model.ok()) return End(StatusOf(model.status()));
    if (!metadata) return Ready(calls_.service.ready());
    Answer(ModelMetadataOf((*model)->signature(), calls_.service.name(), (*model)->version()));
  }

  void Infer() {
    inference::ModelInferRequest message;
    if (!Parse(request_, message)) return Damaged();
    request_.Clear();
    const absl::StatusOr<std::shared_ptr<ServedModel>> model = calls_.service.Find(message.model_name(), message.model_version());
    if (!model.ok()) return Fail(model.status());
    model_ = *model;
    absl::StatusOr<InferRequest> request = RequestOf(message, model_->signature());
    if (!request.ok()) return Fail(request.status());
    infer_.id = request->id;
    infer_.classification = request->classification;
    const auto left = context_.deadline() - std::chrono::system_clock::now();
    if (left < std::chrono::hours(1)) {
      request->timeout = std::min(request->timeout.value_or(absl::InfiniteDuration()), absl::FromChrono(left));
    }
    // The answer may delete this call before Infer returns, so that Infer gets nothing of it.
    calls_.service.Infer(**model, *request, [this](const absl::StatusOr<InferAnswer>& answer) {
      if (answer.ok()) {
        Measure(absl::OkStatus());
        Answer(ResponseOf(infer_, *answer, model_->signature(), calls_.service.name()));
      } else {
        Fail(answer.status());
      }
      return true;  // a call that was cancelled meanwhile is like an answer that was lost on its way
    });
  }
  void Fail(const absl::Status& status) {
    Measure(status);
    End(StatusOf(status));
  }
  void Measure(const absl::Status& status) {
    calls_.service.metrics().AddRequest("grpc", HttpStatusOf(status), RealClock().Now() - begin_);
  }

  Calls& calls_;
  const grpc::GenericCallbackServerContext& context_;  // lives until OnDone
  const absl::Time begin_;
  bool running_ = false;  // it has one of the places
  grpc::ByteBuffer request_;
  grpc::ByteBuffer answer_;
  InferRequest infer_;  // what its answer needs of it
  std::shared_ptr<ServedModel> model_;
};

class Acceptor final : public grpc::CallbackGenericService {
 public:
  explicit Acceptor(Calls& calls) : calls_(calls) {}
  grpc::ServerGenericBidiReactor* CreateReactor(grpc::GenericCallbackServerContext* context) override { return new Call(calls_, *context); }

 private:
  Calls& calls_;
};

}  // namespace

struct GrpcServer::State {
  State(const GrpcServerOptions& with, ModelService& service)
      : options(with), calls{.service = service, .most = with.calls}, acceptor(calls) {}
  ~State() {
    if (!server) return;
    // A shutdown cancels the calls that come before a client has heard of it. So those who ask call
    // after call are told first.
    calls.ending = true;
    absl::SleepFor(std::min(kTurnAway, options.drain / 4));
    server->Shutdown(std::chrono::system_clock::now() + absl::ToChronoMilliseconds(options.drain));
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  const GrpcServerOptions options;
  Calls calls;
  Acceptor acceptor;
  int port = 0;
  std::unique_ptr<grpc::Server> server;
};

GrpcServer::GrpcServer(std::unique_ptr<State> state) : state_(std::move(state)) {}
GrpcServer::~GrpcServer() = default;

absl::StatusOr<std::unique_ptr<GrpcServer>> GrpcServer::Start(const GrpcServerOptions& options, ModelService& service) {
  BoundGrpcLog();
  auto state = std::make_unique<State>(options, service);
  grpc::ServerBuilder builder;
  builder.SetMaxReceiveMessageSize(static_cast<int>(options.request_bytes));
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, options.calls);
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, kHandshakeMs);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_IDLE_MS, kIdleMs);
  builder.AddListeningPort(AddressText(options.host, options.port), grpc::InsecureServerCredentials(), &state->port);
  builder.RegisterCallbackGenericService(&state->acceptor);
  state->server = builder.BuildAndStart();
  if (state->server == nullptr || state->port == 0) {
    return absl::UnavailableError(fmt::format("cannot serve gRPC on {}: the address is in use or not available; give it another port",
                                              AddressText(options.host, options.port)));
  }
  return std::unique_ptr<GrpcServer>(new GrpcServer(std::move(state)));
}

int GrpcServer::port() const { return state_->port; }

}  // namespace trainyard::engine
