// Any bytes as the body of a request of each protocol: an error or examples, never a crash or much
// memory. The first byte chooses the model and the protocol, the second how much of the rest is
// JSON.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <numeric>
#include <string>
#include <string_view>
#include <utility>

#include "trainer/backend/reference/reference_backend.h"
#include "trainer/base/check.h"
#include "trainer/checkpoint/model_description.h"
#include "trainer/job/job_config.h"
#include "trainer/model/build_graph.h"
#include "trainer/predict/predictor.h"
#include "trainer/serve/grpc_messages.h"
#include "trainer/serve/signature.h"
#include "trainer/serve/tensorflow_json.h"
#include "trainer/serve/v2_json.h"

namespace {

using namespace trainyard::engine;  // NOLINT(google-build-using-namespace)

// A model, as far as requests need one.
class FuzzedModel {
 public:
  FuzzedModel(const std::string& input, std::optional<std::vector<FittedColumn>> columns) {
    auto training = ParseTrainingText("model: {input: {shape: " + input +
                                          "}, layers: [{flatten: {}}, {dense: {units: 2}}], loss: softmaxCrossEntropy}\n"
                                          "data: {format: synthetic, train: {examples: 8}}\nbatchSize: 4\nsteps: 5\n",
                                      "training.yaml");
    TY_CHECK(training.ok());
    training->data.fitted = std::move(columns);
    model_.description.training = *std::move(training);
    model_.description.classes = {"a", "b"};
    Prepare();
  }
  // Of text.
  explicit FuzzedModel(TokenKind kind) {
    auto training = ParseTrainingText(
        "model: {input: {shape: [4], vocabulary: 2}, layers: [{embedding: {outputDim: 1}}, {lstm: {units: 1, returnSequences: true}}, "
        "{dense: {units: 2}}], loss: softmaxCrossEntropy}\n"
        "data: {format: text, dir: d, train: {files: [t]}}\nbatchSize: 4\nsteps: 5\n",
        "training.yaml");
    TY_CHECK(training.ok());
    model_.description.training = *std::move(training);
    model_.description.classes = {"a", "b"};
    TokenStream stream(kind);
    TY_CHECK(stream.Append("a b", "the text").ok());
    model_.vocabulary = std::make_shared<const Vocabulary>(stream, 0, 1, 2);
    model_.parameters = ParameterSet(*ParameterSpecsOf(model_.description.training.model));
    Prepare();
  }
  const Signature& signature() const { return *signature_; }

 private:
  void Prepare() {
    predictor_ = *Predictor::Create(model_, *backend_);
    signature_ = std::make_unique<Signature>(*predictor_);
  }

  TrainedModel model_;
  std::unique_ptr<Backend> backend_ = MakeReferenceBackend();
  std::unique_ptr<Predictor> predictor_;
  std::unique_ptr<Signature> signature_;
};

void Read(const absl::StatusOr<InferRequest>& request, const Signature& signature) {
  if (!request.ok()) return;
  const auto examples = signature.ExamplesOf(request->inputs);
  if (!examples.ok()) return;
  const std::vector<int64_t>& steps = examples->steps;
  const int64_t all = steps.empty() ? examples->count : std::accumulate(steps.begin(), steps.end(), int64_t{0});
  TY_CHECK(examples->count > 0 && all >= examples->count && examples->bytes.size() % static_cast<size_t>(all) == 0);
  const InferAnswer answer{
      .version = 1, .examples = examples->count, .values = std::vector<float>(static_cast<size_t>(examples->count) * 2, 0.5F)};
  (void)V2InferBody(*request, answer, signature, "model");
  (void)ResponseOf(*request, answer, signature, "model");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const FuzzedModel picture("[2, 2, 1]", std::nullopt);
  static const FuzzedModel table(
      "[3]", std::vector{FittedColumn{.column = {.name = "age"}, .missing = "1"},
                         FittedColumn{
                             .column = {.name = "sex"}, .type = ColumnType::kCategory, .categories = {"f", "m"}, .missing = std::nullopt}});
  if (size < 2) return 0;
  static const FuzzedModel words(TokenKind::kWords);
  static const FuzzedModel characters(TokenKind::kCharacters);
  const std::array models = {&picture, &table, &words, &characters};
  const Signature& signature = models[(data[0] & 1U) + 2 * (data[0] >> 7U)]->signature();
  const std::string_view body(reinterpret_cast<const char*>(data + 2), size - 2);
  switch ((data[0] & 0x7FU) / 2 % 4) {
    case 0:
      Read(ParseV2Infer(body, std::nullopt, signature), signature);
      break;
    case 1:
      Read(ParseV2Infer(body, body.size() - std::min<size_t>(body.size(), data[1]), signature), signature);
      break;
    case 2: {
      const auto request = ParseTensorFlowPredict(body, signature);
      if (request.ok()) Read(request->request, signature);
      break;
    }
    default: {
      inference::ModelInferRequest message;
      if (message.ParseFromArray(body.data(), static_cast<int>(body.size()))) Read(RequestOf(message, signature), signature);
    }
  }
  return 0;
}
