#include "trainer/serve/grpc_server.h"

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/impl/codegen/client_unary_call.h>
#include <grpcpp/impl/codegen/proto_utils.h>
#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "absl/synchronization/notification.h"
#include "trainer/serve/proto/inference.pb.h"
#include "trainer/serve/test_model.h"

namespace trainyard::engine {
namespace {

using ::testing::HasSubstr;

class GrpcServerTest : public ::testing::Test {
 protected:
  void Start(GrpcServerOptions options = {}) {
    SaveModel(dir_, 7, 1);
    ASSERT_TRUE(watch_.Poll().ok());
    auto server = GrpcServer::Start(options, service_);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    address_ = "127.0.0.1:" + std::to_string(server_->port());
    channel_ = grpc::CreateChannel(address_, grpc::InsecureChannelCredentials());
  }
  static grpc::Status Infer(grpc::Channel& channel) {
    inference::ModelInferRequest request;
    request.set_model_name("model");
    inference::InferTensor& input = *request.add_inputs();
    input.set_name("input");
    input.set_datatype("FP32");
    input.add_shape(1);
    input.add_shape(3);
    for (const float number : {1, 2, 3}) input.mutable_contents()->add_fp32_contents(number);
    inference::ModelInferResponse response;
    const grpc::internal::RpcMethod method("/inference.GRPCInferenceService/ModelInfer", grpc::internal::RpcMethod::NORMAL_RPC);
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
    return grpc::internal::BlockingUnaryCall(&channel, method, &context, request, &response);
  }

  const std::string dir_ = EmptyFolder();
  BatcherOptions batcher_;
  ServeMetrics metrics_;
  VersionWatch watch_{dir_, /*best=*/false, [this](const std::string& path) { return LoadModel(path, batcher_); }};
  ModelService service_{{}, watch_, metrics_};
  std::unique_ptr<GrpcServer> server_;
  std::string address_;
  std::shared_ptr<grpc::Channel> channel_;
};

TEST_F(GrpcServerTest, AClientThatAsksOneCallAfterTheOtherIsNeverRefused) {
  constexpr int kCalls = 2000;
  Start({.calls = 1});
  for (int i = 0; i < kCalls; ++i) {
    const grpc::Status status = Infer(*channel_);
    ASSERT_TRUE(status.ok()) << "call " << i << ": " << status.error_message();
  }
}

TEST_F(GrpcServerTest, MoreCallsThanMayRunAreRefused) {
  batcher_.most_wait = absl::Seconds(1);
  Start({.calls = 1});
  const std::shared_ptr<grpc::Channel> first = channel_;
  std::thread client([&] { EXPECT_TRUE(Infer(*first).ok()); });
  while (watch_.current()->batcher().queued() == 0) std::this_thread::yield();
  grpc::ChannelArguments own;
  own.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);  // of another connection: one has no more streams than calls
  const auto second = grpc::CreateCustomChannel(address_, grpc::InsecureChannelCredentials(), own);
  const grpc::Status status = Infer(*second);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(status.error_message(), "1 calls run, as many as may (--max-connections); try again later");
  client.join();
}

TEST_F(GrpcServerTest, AServerThatEndsAnswersWhatHasComeAndTurnsAwayWhatComes) {
  constexpr int kClients = 8;
  constexpr int kAnswers = 100;  // from which on the server ends
  Start();
  std::atomic<int> answers = 0;
  std::vector<grpc::Status> last(kClients);
  std::vector<std::thread> clients;
  for (grpc::Status& status : last) {
    clients.emplace_back([&] {
      for (status = Infer(*channel_); status.ok(); status = Infer(*channel_)) ++answers;
    });
  }
  while (answers < kAnswers) std::this_thread::yield();
  server_ = nullptr;
  for (std::thread& client : clients) client.join();
  for (const grpc::Status& status : last) {
    EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE) << status.error_message();
    EXPECT_THAT(status.error_message(), HasSubstr("the server is about to end"));
  }
}

TEST_F(GrpcServerTest, AServerThatEndsWaitsForTheCallsThatRun) {
  batcher_.most_wait = absl::Milliseconds(500);
  Start();
  grpc::Status status;
  std::thread client([&] { status = Infer(*channel_); });
  while (watch_.current()->batcher().queued() == 0) std::this_thread::yield();
  server_ = nullptr;
  client.join();
  EXPECT_TRUE(status.ok()) << status.error_message();
}

}  // namespace
}  // namespace trainyard::engine
