#include "trainer/backend/executor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trainer/backend/reference/reference_backend.h"
#include "trainer/backend/reference/trial.h"

namespace trainyard::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

ParameterSet Like(const ParameterSet& params) { return ParameterSet({params.specs().begin(), params.specs().end()}); }

// Two dense layers and a cross-entropy over u8 pixels.
class TwoLayers : public testing::Test {
 protected:
  TwoLayers() {
    const Value x = *builder_.Input("image", {2, 2, 2, 1}, 1.0f / 255.0f);
    const Value labels = *builder_.IntegerInput("label", {2}, 3);
    Value h = *builder_.Flatten("flat", x);
    h = *builder_.Dense("first", h, *builder_.Parameter("first/kernel", {4, 4}));
    h = *builder_.Bias("first/bias_add", h, *builder_.Parameter("first/bias", {4}));
    h = *builder_.Activate("first/tanh", h, Activation::kTanh);
    h = *builder_.Dense("second", h, *builder_.Parameter("second/kernel", {4, 3}));
    EXPECT_TRUE(builder_.Output("logits", h).ok());
    EXPECT_TRUE(builder_.Output("loss", *builder_.SoftmaxCrossEntropy("loss", h, labels)).ok());
    EXPECT_TRUE(builder_.Output("correct", *builder_.CorrectCount("correct", h, labels)).ok());
    for (int key = 0; key < params_.size(); ++key) std::ranges::fill(params_.values(key), 0.1f * static_cast<float>(key + 1));
  }

  std::unique_ptr<Executor> Training(Backend& backend) {
    Graph graph = builder_.graph();
    graph.SetLoss(graph.outputs().at("loss"));
    return *Executor::Create(graph, backend);
  }
  std::unique_ptr<Executor> Evaluation(Backend& backend) { return *Executor::Create(builder_.graph(), backend); }

  std::vector<Feed> feeds() { return {{"image", {DType::kU8, {2, 2, 2}, pixels_.data()}}, {"label", {DType::kI32, {2}, labels_.data()}}}; }
  std::string ErrorOf(const std::vector<Feed>& feeds) {
    return std::string(Evaluation(*backend_)->Run({}, feeds, params_, nullptr, nullptr).message());
  }

  std::array<uint8_t, 8> pixels_ = {0, 255, 51, 102, 0, 0, 0, 0};
  std::array<int32_t, 2> labels_ = {1, 2};
  GraphBuilder builder_;
  ParameterSet params_{{{"first/kernel", {4, 4}}, {"first/bias", {4}}, {"second/kernel", {4, 3}}}};
  std::unique_ptr<Backend> backend_ = MakeReferenceBackend();
};

class Recorder : public GradientSink, public NodeObserver {
 public:
  explicit Recorder(const Graph& graph) : graph_(graph) {}
  void Ready(int key) override { events.push_back("ready " + graph_.parameters()[key].name); }
  void BeforeNode(NodeId node) override { events.push_back(graph_.node(node).name); }
  void AfterNode(NodeId node) override { ++after; }

  std::vector<std::string> events;
  int after = 0;

 private:
  const Graph& graph_;
};

TEST_F(TwoLayers, GradientsAreReadyInBackwardOrderWhileTheBackwardPassRuns) {
  const std::unique_ptr<Executor> executor = Training(*backend_);
  Recorder recorder(executor->graph());
  executor->set_observer(&recorder);
  ParameterSet grads = Like(params_);
  ASSERT_TRUE(executor->Run({}, feeds(), params_, &grads, &recorder).ok());
  EXPECT_THAT(recorder.events,
              ElementsAre("first", "second", "loss", "correct", "gradients/loss", "gradients/loss/input", "gradients/second/weights",
                          "ready second/kernel", "gradients/second/input", "gradients/first/epilogue", "gradients/first/weights",
                          "ready first/kernel", "ready first/bias"));
  EXPECT_EQ(recorder.after, 10);
}

TEST_F(TwoLayers, GivesTheSameResultsStepAfterStepAndInAnEvaluation) {
  const std::unique_ptr<Executor> training = Training(*backend_);
  const std::unique_ptr<Executor> evaluation = Evaluation(*backend_);
  ParameterSet grads = Like(params_);
  ASSERT_TRUE(training->Run({}, feeds(), params_, &grads, nullptr).ok());
  const double loss = *training->Scalar("loss");
  const std::string digest = grads.Sha256Hex();
  EXPECT_GT(loss, 0.0);
  for (int step = 0; step < 3; ++step) {
    ASSERT_TRUE(training->Run({}, feeds(), params_, &grads, nullptr).ok());
    EXPECT_EQ(*training->Scalar("loss"), loss);
    EXPECT_EQ(grads.Sha256Hex(), digest);
  }
  ASSERT_TRUE(evaluation->Run({}, feeds(), params_, nullptr, nullptr).ok());
  EXPECT_EQ(*evaluation->Scalar("loss"), loss);
  EXPECT_EQ(*evaluation->Scalar("correct"), *training->Scalar("correct"));
  EXPECT_LT(evaluation->bytes(), training->bytes());
}

TEST_F(TwoLayers, GradientsInDoubleAgreeWithGradientsInFloat) {
  const std::unique_ptr<Backend> exact = MakeReferenceBackend(DType::kF64);
  ParameterSet grads = Like(params_);
  ParameterSet exact_grads = Like(params_);
  ASSERT_TRUE(Training(*backend_)->Run({}, feeds(), params_, &grads, nullptr).ok());
  ASSERT_TRUE(Training(*exact)->Run({}, feeds(), params_, &exact_grads, nullptr).ok());
  for (int key = 0; key < grads.size(); ++key) {
    for (size_t i = 0; i < grads.values(key).size(); ++i) EXPECT_NEAR(grads.values(key)[i], exact_grads.values(key)[i], 1e-6);
  }
}

TEST_F(TwoLayers, ScalesBytesAndTakesFloatsAsTheyAre) {
  const std::unique_ptr<Executor> executor = Evaluation(*backend_);
  ASSERT_TRUE(executor->Run({}, feeds(), params_, nullptr, nullptr).ok());
  const double loss = *executor->Scalar("loss");
  std::array<float, 8> floats = {0.0f, 1.0f, 0.2f, 0.4f, 0, 0, 0, 0};
  std::vector<Feed> fed = feeds();
  fed[0].tensor = {DType::kF32, {2, 2, 2, 1}, floats.data()};
  ASSERT_TRUE(executor->Run({}, fed, params_, nullptr, nullptr).ok());
  EXPECT_NEAR(*executor->Scalar("loss"), loss, 1e-6);
}

TEST_F(TwoLayers, RefusesWrongFeedsByName) {
  EXPECT_EQ(ErrorOf({feeds()[0]}), "input 'label' is not fed, expected [2]");
  EXPECT_EQ(ErrorOf({feeds()[0], feeds()[0]}), "input 'image' is fed twice");
  std::vector<Feed> fed = feeds();
  fed[0].name = "picture";
  EXPECT_EQ(ErrorOf(fed), "the graph has no input 'picture'");
  fed = feeds();
  fed[0].tensor.shape = {2, 4};
  EXPECT_EQ(ErrorOf(fed), "input 'image': fed with shape [2, 4], expected [2, 2, 2, 1]");
  fed[0].tensor.shape = {1, 2, 2, 2};
  EXPECT_EQ(ErrorOf(fed), "input 'image': fed with shape [1, 2, 2, 2], expected [2, 2, 2, 1]");
  fed = feeds();
  fed[1].tensor.dtype = DType::kF32;
  EXPECT_EQ(ErrorOf(fed), "input 'label': fed with F32, expected I32");
  labels_[1] = 3;
  EXPECT_EQ(ErrorOf(feeds()), "input 'label': element 1 is 3, expected 0 to 2");
  labels_[1] = -1;
  EXPECT_EQ(ErrorOf(feeds()), "input 'label': element 1 is -1, expected 0 to 2");
}

TEST_F(TwoLayers, RefusesParametersAndGradientsOfAnotherModel) {
  const std::unique_ptr<Executor> executor = Training(*backend_);
  ParameterSet other({{"first/kernel", {4, 4}}});
  ParameterSet grads = Like(params_);
  EXPECT_THAT(std::string(executor->Run({}, feeds(), other, &grads, nullptr).message()), HasSubstr("not those of its graph"));
  EXPECT_THAT(std::string(executor->Run({}, feeds(), params_, &other, nullptr).message()), HasSubstr("not those of its graph"));
  EXPECT_THAT(std::string(executor->Run({}, feeds(), params_, nullptr, nullptr).message()), HasSubstr("no gradient set was given"));
}

TEST_F(TwoLayers, RefusesToFetchWhatIsNotThereOrDoesNotFit) {
  const std::unique_ptr<Executor> executor = Evaluation(*backend_);
  ASSERT_TRUE(executor->Run({}, feeds(), params_, nullptr, nullptr).ok());
  EXPECT_EQ(executor->Scalar("perplexity").status().message(), "the graph has no output 'perplexity'");
  EXPECT_EQ(executor->Scalar("logits").status().message(), "output 'logits' is F32 [2, 3], it cannot be fetched into F64 []");
}

// The reference backend, as if its memory were not the host's: f32, but no parameter may be used
// where the caller keeps it.
class DeviceBackend final : public Backend {
 public:
  std::string_view name() const override { return "device"; }
  std::string_view kernels() const override { return "device"; }
  bool uses_host_memory() const override { return false; }
  DType real() const override { return DType::kF32; }
  Graph Rewrite(const Graph& forward, const RewriteOptions& options) const override { return reference_->Rewrite(forward, options); }
  absl::StatusOr<std::unique_ptr<DeviceMemory>> Allocate(std::string_view what, size_t bytes) override {
    allocated += bytes;
    return reference_->Allocate(what, bytes);
  }
  size_t BytesFor(const ValueSpec& spec) const override { return reference_->BytesFor(spec); }
  absl::StatusOr<std::unique_ptr<Kernel>> Compile(const Graph& graph, NodeId node, bool inference) override {
    return reference_->Compile(graph, node, inference);
  }
  void Upload(const ValueSpec& spec, float u8_scale, const Tensor& host, void* value) override {
    ++uploads;
    reference_->Upload(spec, u8_scale, host, value);
  }
  void Download(const ValueSpec& spec, const void* value, const Tensor& host) override {
    ++downloads;
    reference_->Download(spec, value, host);
  }

  absl::Status status() const override {
    return downloads >= fails_at_download ? absl::InternalError("the device is lost") : absl::OkStatus();
  }

  size_t allocated = 0;
  int uploads = 0;
  int downloads = 0;
  int fails_at_download = 1'000;

 private:
  std::unique_ptr<Backend> reference_ = MakeReferenceBackend();
};

TEST_F(TwoLayers, OnADeviceWithMemoryOfItsOwnParametersGoThereAndGradientsComeBack) {
  DeviceBackend device;
  const std::unique_ptr<Executor> there = Training(device);
  EXPECT_EQ(device.allocated, there->bytes());
  ParameterSet grads = Like(params_);
  ParameterSet expected = Like(params_);
  ASSERT_TRUE(there->Run({}, feeds(), params_, &grads, nullptr).ok());
  EXPECT_EQ(device.uploads, 2 + 3) << "the inputs and the parameters";
  EXPECT_EQ(device.downloads, 3) << "the gradients";
  ASSERT_TRUE(Training(*backend_)->Run({}, feeds(), params_, &expected, nullptr).ok());
  EXPECT_EQ(grads.Sha256Hex(), expected.Sha256Hex());
}

TEST_F(TwoLayers, ADeviceThatFailsEndsTheStepBeforeItsResultsAreHandedOver) {
  DeviceBackend device;
  const std::unique_ptr<Executor> executor = Training(device);
  ParameterSet grads = Like(params_);
  Recorder recorder(executor->graph());
  device.fails_at_download = 2;
  EXPECT_THAT(std::string(executor->Run({}, feeds(), params_, &grads, &recorder).message()), HasSubstr("the device is lost"));
  EXPECT_THAT(recorder.events, ElementsAre("ready second/kernel"));
  recorder.events.clear();
  EXPECT_EQ(executor->Run({}, feeds(), params_, &grads, &recorder).code(), absl::StatusCode::kInternal);
  EXPECT_EQ(executor->Scalar("loss").status().code(), absl::StatusCode::kInternal);
  EXPECT_THAT(recorder.events, ElementsAre());
}

// Parameters and inputs that are results or outputs themselves, one gradient for two keys, next
// values of state.
TEST(Executor, HandsOverResultsThatNoKernelMakes) {
  for (DType math : {DType::kF32, DType::kF64}) {
    GraphBuilder b;
    const Value x = *b.Input("x", {2, 2});
    const Value one = *b.Parameter("one", {2});
    const Value two = *b.Parameter("two", {2});
    const Value state = *b.Parameter("state", {2}, /*trainable=*/false);
    const Value copied = *b.Parameter("copied", {2}, /*trainable=*/false);
    const Value both[] = {one, two};
    const Value bias = *b.Add("both", both);
    const Value terms[] = {state, one};
    ASSERT_TRUE(b.NextValue(state, *b.Add("state/next", terms)).ok());
    ASSERT_TRUE(b.NextValue(copied, one).ok());
    const Value y = *b.Bias("y", x, bias);
    ASSERT_TRUE(b.Output("loss", *b.MeanSquaredError("loss", y, *b.Input("target", {2, 2}))).ok());
    ASSERT_TRUE(b.Output("one", one).ok());
    Graph graph = std::move(b).Build();
    graph.SetLoss(graph.outputs().at("loss"));
    const std::unique_ptr<Backend> backend = MakeReferenceBackend(math);
    const auto executor = Executor::Create(graph, *backend, {.fuse = false});
    ASSERT_TRUE(executor.ok()) << executor.status();
    ParameterSet params({{"one", {2}}, {"two", {2}}, {"state", {2}, false}, {"copied", {2}, false}});
    std::ranges::copy(std::array{1.0f, 2.0f}, params.values(0).begin());
    std::ranges::copy(std::array{10.0f, 20.0f}, params.values(2).begin());
    std::array<float, 4> zeros{};
    const Feed feeds[] = {{"x", {DType::kF32, {2, 2}, zeros.data()}}, {"target", {DType::kF32, {2, 2}, zeros.data()}}};
    ParameterSet grads = Like(params);
    Recorder recorder((*executor)->graph());
    ASSERT_TRUE((*executor)->Run({}, feeds, params, &grads, &recorder).ok());
    EXPECT_THAT(grads.values(0), ElementsAre(1, 2));
    EXPECT_THAT(grads.values(1), ElementsAre(1, 2));
    EXPECT_THAT(grads.values(2), ElementsAre(11, 22));
    EXPECT_THAT(grads.values(3), ElementsAre(1, 2));
    EXPECT_THAT(recorder.events, ElementsAre("ready copied", "ready state", "ready one", "ready two"));
    std::array<float, 2> fetched;
    ASSERT_TRUE((*executor)->Fetch("one", {DType::kF32, {2}, fetched.data()}).ok());
    EXPECT_THAT(fetched, ElementsAre(1, 2));
  }
}

}  // namespace
}  // namespace trainyard::engine
