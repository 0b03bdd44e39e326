#include "trainer/report/progress_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <httplib.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <thread>
#include <vector>

namespace trainyard::engine {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::Not;

Progress Example() {
  Progress progress;
  progress.step = 50;
  progress.total_steps = 200;
  progress.epoch = 1;
  progress.loss = 0.5;
  progress.metrics = {{"accuracy", 0.97}};
  progress.batches_per_second = 10;
  progress.examples_per_second = 1280;
  progress.unit = {.name = "words", .per_example = 30};
  progress.perplexity = 1.65;
  progress.eta = absl::Seconds(15);
  progress.last_checkpoint_step = 40;
  progress.updated_time = absl::FromUnixSeconds(1700000000);
  progress.input_seconds = 0.25;
  progress.input_stages = {{"order", 0.125}, {"read", 0.5}};
  return progress;
}

std::unique_ptr<ProgressServer> StartServer() {
  auto server = ProgressServer::Start({.host = "127.0.0.1", .role = "worker", .index = 1});
  EXPECT_TRUE(server.ok()) << server.status();
  return *std::move(server);
}

std::string Get(const ProgressServer& server, const std::string& path) {
  httplib::Client client("127.0.0.1", server.port());
  auto response = client.Get(path);
  EXPECT_TRUE(response) << httplib::to_string(response.error());
  if (!response) return "";
  EXPECT_EQ(response->status, 200) << path;
  return response->body;
}

TEST(ProgressText, JsonHasTheStatusFieldsNames) {
  EXPECT_EQ(json::parse(ProgressJson(Example())), json::parse(R"({"step": 50, "totalSteps": 200, "epoch": 1, "percent": 25.0, "loss": 0.5,
    "metrics": {"accuracy": 0.97, "trainPerplexity": 1.65}, "batchesPerSecond": 10.0, "examplesPerSecond": 1280.0, "unit": "words",
    "unitsPerExample": 30, "etaSeconds": 15.0, "lastCheckpointStep": 40,
    "updatedTime": "2023-11-14T22:13:20Z"})"));
}

TEST(ProgressText, ALossThatIsNoNumberIsNullAndOtherThingsAreLeftOut) {
  Progress progress;
  progress.loss = std::numeric_limits<double>::quiet_NaN();
  progress.eta = absl::InfiniteDuration();
  progress.metrics = {{"loss", std::numeric_limits<double>::infinity()}};
  const json object = json::parse(ProgressJson(progress));
  EXPECT_TRUE(object.at("loss").is_null());
  EXPECT_FALSE(json::parse(ProgressJson(Progress())).contains("loss"));
  EXPECT_FALSE(object.contains("etaSeconds"));
  EXPECT_FALSE(object.contains("lastCheckpointStep"));
  EXPECT_TRUE(object["metrics"].empty());
  EXPECT_EQ(object["percent"], 0.0);
}

TEST(ProgressText, PercentStaysBelowHundredAndOne) {
  Progress progress;
  progress.step = 300;
  progress.total_steps = 200;
  EXPECT_EQ(json::parse(ProgressJson(progress))["percent"], 100.0);
}

TEST(ProgressText, MetricsAreLabelledByReplica) {
  const std::string text = ProgressMetrics(Example(), "worker", 1);
  EXPECT_THAT(text, HasSubstr("# TYPE trainyard_trainer_step gauge\ntrainyard_trainer_step{role=\"worker\",index=\"1\"} 50"));
  EXPECT_THAT(text, HasSubstr("trainyard_trainer_metric{role=\"worker\",index=\"1\",name=\"accuracy\"} 0.97"));
  EXPECT_THAT(text, HasSubstr("# TYPE trainyard_trainer_phase_seconds_total counter"));
  EXPECT_THAT(text, HasSubstr("trainyard_trainer_phase_seconds_total{role=\"worker\",index=\"1\",phase=\"input\"} 0.25"));
  EXPECT_THAT(text, HasSubstr("trainyard_trainer_input_stage_seconds_total{role=\"worker\",index=\"1\",stage=\"read\"} 0.5"));
  EXPECT_THAT(text, HasSubstr("# TYPE process_cpu_seconds_total counter\nprocess_cpu_seconds_total{role=\"worker\",index=\"1\"} "));
  EXPECT_THAT(text, HasSubstr("# TYPE process_resident_memory_bytes gauge\nprocess_resident_memory_bytes{role=\"worker\",index=\"1\"} "));
  EXPECT_THAT(ProgressMetrics(Progress(), "ps", 0), Not(HasSubstr("trainyard_trainer_metric")));
}

TEST(ProgressText, StragglersAreNamedAndEachWorkersPaceIsAMetric) {
  Progress progress;
  progress.stragglers = {"worker-3"};
  progress.worker_step_seconds = {{"worker-0", 0.25}, {"worker-3", 0.5}};
  EXPECT_EQ(json::parse(ProgressJson(progress))["stragglers"], json({"worker-3"}));
  EXPECT_FALSE(json::parse(ProgressJson(Progress())).contains("stragglers"));
  const std::string text = ProgressMetrics(progress, "worker", 0);
  EXPECT_THAT(text, HasSubstr("trainyard_trainer_worker_step_seconds{role=\"worker\",index=\"0\",worker=\"worker-3\"} 0.5"));
  EXPECT_THAT(text, HasSubstr("trainyard_trainer_stragglers{role=\"worker\",index=\"0\"} 1"));
  EXPECT_THAT(ProgressMetrics(Progress(), "worker", 0), Not(HasSubstr("straggler")));
}

TEST(ProgressText, GpusHaveTheirMemoryAndUtilizationByNumber) {
  Progress progress;
  EXPECT_THAT(ProgressMetrics(progress, "worker", 0), Not(HasSubstr("gpu")));
  progress.gpus = {{.gpu = 0, .name = "A", .memory_used_bytes = 30, .memory_total_bytes = 80, .utilization = 0.75},
                   {.gpu = 1, .name = "B", .memory_used_bytes = 5, .memory_total_bytes = 10, .utilization = std::nullopt}};
  const std::string text = ProgressMetrics(progress, "worker", 0);
  EXPECT_THAT(text, HasSubstr("trainyard_trainer_gpu_memory_used_bytes{role=\"worker\",index=\"0\",gpu=\"0\"} 30"));
  EXPECT_THAT(text, HasSubstr("trainyard_trainer_gpu_memory_total_bytes{role=\"worker\",index=\"0\",gpu=\"1\"} 10"));
  EXPECT_THAT(text, HasSubstr("trainyard_trainer_gpu_utilization_ratio{role=\"worker\",index=\"0\",gpu=\"0\"} 0.75"));
  EXPECT_THAT(text, Not(HasSubstr("trainyard_trainer_gpu_utilization_ratio{role=\"worker\",index=\"0\",gpu=\"1\"}")));
}

TEST(ProgressText, MetricsOfAServerHaveTheStreamsThatItRefused) {
  Progress progress;
  EXPECT_THAT(ProgressMetrics(progress, "ps", 0), Not(HasSubstr("refused")));
  progress.refused_streams = 7;
  EXPECT_THAT(ProgressMetrics(progress, "ps", 0), HasSubstr("trainyard_trainer_refused_streams_total{role=\"ps\",index=\"0\"} 7"));
}

TEST(ProgressServer, AnswersWithTheLastUpdate) {
  auto server = StartServer();
  EXPECT_EQ(json::parse(Get(*server, "/progress"))["step"], 0);
  server->Update(Example());
  EXPECT_EQ(json::parse(Get(*server, "/progress"))["step"], 50);
  EXPECT_THAT(Get(*server, "/metrics"), HasSubstr("trainyard_trainer_step{"));
  EXPECT_EQ(Get(*server, "/healthz"), "ok\n");
}

TEST(ProgressServer, AnotherPathIsNotFound) {
  auto server = StartServer();
  auto response = httplib::Client("127.0.0.1", server->port()).Get("/secret");
  ASSERT_TRUE(response);
  EXPECT_EQ(response->status, 404);
}

TEST(ProgressServer, APortInUseIsNamed) {
  auto server = StartServer();
  auto second = ProgressServer::Start({.host = "127.0.0.1", .port = server->port(), .role = "worker", .index = 2});
  EXPECT_EQ(second.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(second.status().message()), HasSubstr("of worker 2 on 127.0.0.1:" + std::to_string(server->port())));
}

TEST(ProgressServer, AnIdleClientDoesNotHoldUpOthers) {
  auto server = StartServer();
  std::vector<std::unique_ptr<httplib::Client>> idle;
  for (int i = 0; i < 4; ++i) {
    idle.push_back(std::make_unique<httplib::Client>("127.0.0.1", server->port()));
    idle.back()->set_keep_alive(true);
    ASSERT_TRUE(idle.back()->Get("/healthz"));
  }
  EXPECT_EQ(Get(*server, "/healthz"), "ok\n");
}

// A connection that sends `bytes` and then nothing.
class SilentClient {
 public:
  SilentClient(int port, std::string_view bytes) : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    EXPECT_EQ(::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL), static_cast<ssize_t>(bytes.size()));
  }
  ~SilentClient() { ::close(socket_); }
  // False: not all of `bytes`, because the server has closed the connection.
  bool Say(std::string_view bytes) const {
    while (!bytes.empty()) {
      const ssize_t count = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (count <= 0) return false;
      bytes.remove_prefix(static_cast<size_t>(count));
    }
    return true;
  }
  SilentClient(const SilentClient&) = delete;
  SilentClient& operator=(const SilentClient&) = delete;

 private:
  const int socket_;
};

// Two threads with a timeout of 5 s each would answer after minutes; httplib's client waits for 5
// s.
TEST(ProgressServer, FiftyIdleAndFiftySlowClientsDelayNobody) {
  auto server = StartServer();
  std::vector<std::unique_ptr<SilentClient>> clients;
  for (int i = 0; i < 50; ++i) {
    clients.push_back(std::make_unique<SilentClient>(server->port(), ""));
    clients.push_back(std::make_unique<SilentClient>(server->port(), "GET /progress HTTP/1.1\r\nHost: a"));
  }
  EXPECT_EQ(Get(*server, "/healthz"), "ok\n");
  EXPECT_EQ(json::parse(Get(*server, "/progress"))["step"], 0);
}

TEST(ProgressServer, AHeaderWithoutAnEndIsCutOff) {
  auto server = StartServer();
  const SilentClient client(server->port(), "GET /progress HTTP/1.1\r\nA: ");
  const std::string line(64 << 20, 'x');
  EXPECT_FALSE(client.Say(line));
  EXPECT_EQ(Get(*server, "/healthz"), "ok\n");
}

TEST(ProgressServer, UpdatesAndRequestsMayComeFromManyThreads) {
  auto server = StartServer();
  std::vector<std::thread> readers;
  for (int i = 0; i < 3; ++i) {
    readers.emplace_back([&] {
      for (int k = 0; k < 20; ++k) Get(*server, "/metrics");
    });
  }
  for (int k = 0; k < 200; ++k) server->Update(Example());
  for (std::thread& reader : readers) reader.join();
}

TEST(ProgressServer, StopsAtOnceEvenIfNeverAsked) {
  for (int i = 0; i < 20; ++i) StartServer().reset();
}

}  // namespace
}  // namespace trainyard::engine
