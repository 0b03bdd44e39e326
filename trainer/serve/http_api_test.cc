#include "trainer/serve/http_api.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <nlohmann/json.hpp>

#include "trainer/serve/test_model.h"

namespace trainyard::engine {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

class HttpApiTest : public ::testing::Test {
 protected:
  void Serve(const std::string& model = kSumOfThree) {
    SaveModel(dir_, 7, 1, model);
    const absl::Status status = watch_.Poll();
    ASSERT_TRUE(status.ok()) << status;
  }
  HttpAnswer Get(const std::string& path) { return api_.Answer({.method = "GET", .path = path, .body = "", .json_bytes = ""}); }
  HttpAnswer Post(const std::string& path, const std::string& body, const std::string& json_bytes = "") {
    return api_.Answer({.method = "POST", .path = path, .body = body, .json_bytes = json_bytes});
  }
  // The error of a request that is refused with `status`.
  std::string Refusal(int status, const std::string& path, const std::string& body) {
    const HttpAnswer answer = Post(path, body);
    EXPECT_EQ(answer.status, status) << answer.body;
    return json::parse(answer.body).at("error").get<std::string>();
  }
  std::string WrongV2(const std::string& body) { return Refusal(400, "/v2/models/m/infer", body); }
  std::string WrongTensorFlow(const std::string& body) { return Refusal(400, "/v1/models/m:predict", body); }

  const std::string dir_ = EmptyFolder();
  ServeMetrics metrics_;
  VersionWatch watch_{dir_, /*best=*/false, [](const std::string& path) { return LoadModel(path); }};
  ModelService service_{{.name = "m"}, watch_, metrics_};
  HttpApi api_{service_};
};

TEST_F(HttpApiTest, ItSaysWhatItServes) {
  Serve();
  EXPECT_EQ(json::parse(Get("/v2").body)["extensions"], json({"binary_tensor_data", "classification", "sequence"}));
  EXPECT_EQ(json::parse(Get("/v2/models/m").body), json::parse(R"({"name": "m", "versions": ["7"], "platform": "trainyard",
    "inputs": [{"name": "input", "datatype": "FP32", "shape": [-1, 3]}], "outputs": [{"name": "prediction", "datatype": "FP32", "shape": [-1, 1]}]})"));
  EXPECT_EQ(Get("/v2/models/m/versions/7").body, Get("/v2/models/m").body);
  EXPECT_EQ(json::parse(Get("/v1/models/m").body)["model_version_status"][0]["version"], "7");
  EXPECT_EQ(json::parse(Get("/v1/models/m/metadata").body)["model_spec"]["version"], "7");
}

TEST_F(HttpApiTest, ItIsReadyFromTheFirstVersionUntilItDrains) {
  EXPECT_EQ(Get("/healthz").status, 200);
  EXPECT_EQ(Get("/readyz").status, 503);
  EXPECT_EQ(Get("/v2/health/ready").status, 503);
  EXPECT_EQ(Get("/v2/models/m/ready").status, 503);
  EXPECT_EQ(Post("/v1/models/m:predict", R"({"instances": [[1, 2, 3]]})").status, 503);
  Serve();
  for (const char* path : {"/readyz", "/v2/health/ready", "/v2/health/live", "/v2/models/m/ready", "/v2/models/m/versions/7/ready"}) {
    EXPECT_EQ(Get(path).status, 200) << path;
  }
  service_.Drain();
  EXPECT_EQ(Get("/readyz").status, 503);
  EXPECT_EQ(Get("/v2/health/live").status, 200);
  EXPECT_EQ(Post("/v1/models/m:predict", R"({"instances": [[1, 2, 3]]})").status, 200);
}

TEST_F(HttpApiTest, RowsAndColumnsAndTensorsGetTheSameNumbers) {
  Serve();
  EXPECT_EQ(Post("/v1/models/m:predict", R"({"instances": [[1, 2, 3], [4, 5, 6]]})").body, R"({"predictions":[[7.0],[16.0]]})");
  EXPECT_EQ(Post("/v1/models/m/versions/7:predict", R"({"signature_name": "serving_default", "instances": [{"input": [1, 2, 3]}]})").body,
            R"({"predictions":[[7.0]]})");
  EXPECT_EQ(Post("/v1/models/m:predict", R"({"inputs": {"input": [[1, 2, 3]]}})").body, R"({"outputs":[[7.0]]})");
  EXPECT_EQ(Post("/v1/models/m:predict", R"({"inputs": [[1, 2, 3]]})").body, R"({"outputs":[[7.0]]})");
  EXPECT_EQ(Post("/v2/models/m/infer", R"({"id": "a", "inputs": [{"name": "input", "shape": [2, 3], "datatype": "FP32",
    "data": [1, 2, 3, 4, 5, 6]}], "outputs": [{"name": "prediction"}]})")
                .body,
            R"({"model_name":"m","model_version":"7","id":"a","outputs":[{"name":"prediction","datatype":"FP32","shape":[2,1],)"
            R"("data":[7.0,16.0]}]})");
}

TEST_F(HttpApiTest, AFieldThatIsNullIsAbsent) {
  Serve();
  EXPECT_EQ(Post("/v2/models/m/infer", R"({"id": null, "parameters": null, "outputs": null, "inputs": [{"name": "input", "shape": [1, 3],
    "datatype": "FP32", "parameters": null, "data": [1, 2, 3]}]})")
                .status,
            200);
}

TEST_F(HttpApiTest, BytesAreDividedBy255AsInTraining) {
  Serve();
  const json answer = json::parse(
      Post("/v2/models/m/infer", R"({"inputs": [{"name": "input", "shape": [1, 3], "datatype": "UINT8", "data": [[255, 0, 255]]}]})").body);
  EXPECT_FLOAT_EQ(answer["outputs"][0]["data"][0].get<float>(), 3);
}

TEST_F(HttpApiTest, TensorsMayStandBehindTheJson) {
  Serve();
  const std::string head = R"({"inputs": [{"name": "input", "shape": [1, 3], "datatype": "FP32", "parameters": {"binary_data_size": 12}}],
    "parameters": {"binary_data_output": true}})";
  const std::vector<float> numbers = {1, 2, 3};
  const std::string body = head + std::string(reinterpret_cast<const char*>(numbers.data()), 12);
  const HttpAnswer answer = Post("/v2/models/m/infer", body, std::to_string(head.size()));
  ASSERT_EQ(answer.status, 200) << answer.body;
  ASSERT_THAT(answer.headers, ElementsAre(Pair("Inference-Header-Content-Length", std::to_string(answer.body.size() - 4))));
  float value = 0;
  std::memcpy(&value, answer.body.data() + answer.body.size() - 4, 4);
  EXPECT_EQ(value, 7);
  EXPECT_EQ(json::parse(answer.body.substr(0, answer.body.size() - 4))["outputs"][0]["parameters"]["binary_data_size"], 4);
  EXPECT_THAT(Post("/v2/models/m/infer", body, "100000").body, HasSubstr("Inference-Header-Content-Length: found 100000"));
  EXPECT_THAT(Post("/v2/models/m/infer", body, "x").body, HasSubstr("found \\\"x\\\", expected a number of bytes"));
  EXPECT_THAT(Post("/v2/models/m/infer", body + "more", std::to_string(head.size())).body, HasSubstr("found 4 bytes behind the JSON"));
  EXPECT_THAT(Post("/v2/models/m/infer", body.substr(0, body.size() - 1), std::to_string(head.size())).body,
              HasSubstr("inputs[0].parameters.binary_data_size: found 12, expected at most the 11 bytes"));
}

TEST_F(HttpApiTest, TheLikeliestClassesComeByName) {
  Serve(kTwoClasses);
  const json answer =
      json::parse(Post("/v2/models/m/infer", R"({"inputs": [{"name": "input", "shape": [1, 3], "datatype": "FP32", "data": [1, 2, 3]}],
    "outputs": [{"name": "probabilities", "parameters": {"classification": 1}}]})")
                      .body);
  EXPECT_EQ(answer["outputs"][0]["datatype"], "BYTES");
  EXPECT_EQ(answer["outputs"][0]["shape"], json({1, 1}));
  EXPECT_EQ(answer["outputs"][0]["data"], json({"0.5:0:0"}));
}

TEST_F(HttpApiTest, WrongTensorsAreRefusedByField) {
  Serve();
  EXPECT_EQ(WrongV2("{}"), "inputs: missing, expected a list of objects");
  EXPECT_EQ(WrongV2(R"({"inputs": []})"), "inputs: found a list of shape [0], expected a list of objects");
  EXPECT_EQ(WrongV2(R"({"inputs": [3]})"), "inputs: found a list of shape [1], expected a list of objects");
  EXPECT_EQ(WrongV2(R"({"inputs": [{}]})"), "inputs[0].name: missing, expected a text");
  const auto input = [](const std::string& fields) { return R"({"inputs": [{"name": "input", )" + fields + "}]}"; };
  EXPECT_EQ(WrongV2(input(R"("datatype": "FP16", "shape": [1, 3], "data": [1, 2, 3])")),
            "inputs[0].datatype: found \"FP16\", expected one of FP32, FP64, INT32, INT64, UINT8");
  EXPECT_EQ(WrongV2(input(R"("datatype": "FP32", "shape": [1, -3], "data": [1, 2, 3])")),
            "inputs[0].shape: found the extent -3, expected a whole number from 0");
  EXPECT_EQ(WrongV2(input(R"("datatype": "FP32", "shape": [9007199254740992, 9007199254740992], "data": [1])")),
            "inputs[0].shape: found more elements than a request holds");
  EXPECT_EQ(WrongV2(input(R"("datatype": "FP32", "shape": [1, 4], "data": [1, 2, 3, 4])")),
            "inputs[0].shape: found [1, 4], expected [-1, 3], with the number of examples in front");
  EXPECT_EQ(WrongV2(input(R"("datatype": "FP32", "shape": [1, 3], "data": [1, 2])")),
            "inputs[0].data: found 2 numbers, expected 3 as the shape says");
  EXPECT_EQ(WrongV2(input(R"("datatype": "UINT8", "shape": [1, 3], "data": [1, 2, 256])")),
            "inputs[0].data: found 256 at element 2, expected UINT8 numbers");
  EXPECT_EQ(WrongV2(input(R"("datatype": "INT32", "shape": [1, 3], "data": [1, 2, 2.5])")),
            "inputs[0].data: found 2.5 at element 2, expected INT32 numbers");
  EXPECT_EQ(WrongV2(input(R"("datatype": "FP32", "shape": [1, 3], "data": [1, null, 3])")),
            "inputs[0].data: found null at element 1, expected FP32 numbers");
  EXPECT_EQ(WrongV2(input(R"("datatype": "FP32", "shape": [1, 3], "data": [1, 2, 1e39])")),
            "inputs[0].data: found a number that is not finite, or too large, at element 2");
  EXPECT_EQ(WrongV2(input(R"("datatype": "BYTES", "shape": [1, 3], "data": ["a", "b", "c"])")),
            "inputs[0].datatype: found \"BYTES\", expected one of FP32, FP64, INT32, INT64, UINT8");
  EXPECT_EQ(WrongV2(input(
                R"("datatype": "FP32", "shape": [1, 3], "data": [1, 2, 3]}, {"name": "x", "datatype": "FP32", "shape": [1], "data": [1])")),
            "inputs[1].name: found \"x\", expected input");
  EXPECT_EQ(WrongV2(input(R"("datatype": "FP32", "shape": [1, 3], "data": [1, 2, 3]}], "outputs": [{"name": "y")")),
            "outputs[0].name: found \"y\", expected \"prediction\"");
  EXPECT_THAT(WrongV2(input(R"("datatype": "FP32", "shape": [1, 3], "data": [3e38, 3e38, 3e38])")), HasSubstr("not finite"));
}

TEST_F(HttpApiTest, CellsAreWhatTheirDatatypeSays) {
  Serve(kTable);
  const auto body = [](const std::string& type, const std::string& data) {
    return R"({"inputs": [{"name": "day", "shape": [1], "datatype": "BYTES", "data": ["20231105"]}, {"name": "x", "shape": [1], "datatype": ")" +
           type + R"(", "data": )" + data + "}]}";
  };
  EXPECT_EQ(WrongV2(body("NONSENSE", "[1]")),
            "inputs[1].datatype: found \"NONSENSE\", expected one of FP32, FP64, INT32, INT64, UINT8, BYTES");
  EXPECT_EQ(WrongV2(body("INT64", "[1.5]")), "inputs[1].data: found 1.5 at element 0, expected INT64 numbers");
  EXPECT_EQ(WrongV2(body("FP64", "[\"1\"]")), "inputs[1].data: found texts, expected FP64 numbers, as the datatype says");
  EXPECT_EQ(WrongV2(body("BYTES", "[1]")), "inputs[1].data: found numbers, expected texts, as the datatype says");
  for (const auto& [type, data] : {std::pair("INT64", "[2]"), {"FP32", "[2]"}, {"FP64", "[2.0]"}, {"UINT8", "[2]"}, {"BYTES", "[\"2\"]"}}) {
    EXPECT_EQ(Post("/v2/models/m/infer", body(type, data)).status, 200) << type;
  }
}

// Of a missing day stands 20231104, of a missing x 0.
TEST_F(HttpApiTest, NullIsAMissingCellInRowsAndColumnsAndTensors) {
  Serve(kTable);
  constexpr char kPath[] = "/v1/models/m:predict";
  EXPECT_EQ(Post(kPath, R"({"instances": [{"day": null, "x": 2}, {"day": "20231105", "x": null}]})").body,
            R"({"predictions":[[4.0],[2.0]]})");
  EXPECT_EQ(Post(kPath, R"({"inputs": {"day": [null, "20231105"], "x": [2, null]}})").body, R"({"outputs":[[4.0],[2.0]]})");
  EXPECT_EQ(Post(kPath, R"({"inputs": {"day": [["20231105"], [null]], "x": [[null], [2]]}})").body, R"({"outputs":[[2.0],[4.0]]})");
  const auto values = [&](const std::string& day, const std::string& x) {
    const HttpAnswer answer =
        Post("/v2/models/m/infer", R"({"inputs": [{"name": "day", "shape": [2], "datatype": "BYTES", "data": )" + day +
                                       R"(}, {"name": "x", "shape": [2], "datatype": "FP64", "data": )" + x + "}]}");
    EXPECT_EQ(answer.status, 200) << answer.body;
    return json::parse(answer.body)["outputs"][0]["data"];
  };
  EXPECT_EQ(values(R"([null, "20231105"])", "[2, null]"), json({4, 2}));
  EXPECT_EQ(values("[null, null]", "[null, null]"), json({2, 2}));
}

TEST_F(HttpApiTest, WrongRowsAreRefusedByField) {
  Serve();
  EXPECT_EQ(WrongTensorFlow("{}"), "the body: found neither \"instances\" nor \"inputs\", expected one of them");
  EXPECT_EQ(WrongTensorFlow(R"({"instances": [[1, 2]]})"),
            "instances: found [1, 2], expected [-1, 3], with the number of examples in front");
  EXPECT_EQ(WrongTensorFlow(R"({"instances": []})"), "instances: found a list of shape [0], expected an example or more");
  EXPECT_EQ(WrongTensorFlow(R"({"instances": 3})"), "instances: found 3, expected a list with an element for each example");
  EXPECT_EQ(WrongTensorFlow(R"({"instances": ["a"]})"), "instances: found [1], expected [-1, 3], with the number of examples in front");
  EXPECT_EQ(WrongTensorFlow(R"({"instances": [{"input": [1, 2, 3]}, {"inpt": [1, 2, 3]}]})"),
            "instances[1].input: missing, expected it as in instances[0]");
  EXPECT_EQ(WrongTensorFlow(R"({"instances": [{"input": "a"}, {"input": true}]})"),
            "instances[1].input: found true, expected a text, a number, or {\"b64\": …}");
  EXPECT_EQ(WrongTensorFlow(R"({"instances": [{"x": [1, 2, 3]}]})"), "instances.x: found \"x\", expected input");
  EXPECT_EQ(WrongTensorFlow(R"({"signature_name": "train", "instances": [[1, 2, 3]]})"),
            "signature_name: found \"train\", expected \"serving_default\" or none");
}

TEST_F(HttpApiTest, PathsAndMethodsThatAreNotServedAreNamed) {
  Serve();
  EXPECT_THAT(Refusal(404, "/v2/models/other/infer", "{}"), HasSubstr("model name: found \"other\", expected \"m\""));
  EXPECT_THAT(Refusal(404, "/v2/models/m/versions/6/infer", "{}"), HasSubstr("model version: found \"6\", expected 7"));
  for (const char* path :
       {"/", "/v2/models/", "/v2/models/m/what", "/v2/models/m/versions/7/infer/more", "/v1/models/m:train", "/v3", ""}) {
    EXPECT_EQ(Get(path).status, 404) << path;
  }
  EXPECT_EQ(Refusal(404, "/v1/models/m:classify", "{}"),
            "path: found the verb \":classify\" in \"/v1/models/m:classify\", expected :predict");
  EXPECT_EQ(Post("/v1/models/m/versions/7:regress", "{}").status, 404);
  EXPECT_EQ(Get("/v1/models/m:metadata").status, 404);
  EXPECT_EQ(Get("/v2/models/m/infer").status, 405);
  EXPECT_EQ(Get("/v1/models/m:predict").status, 405);
  EXPECT_EQ(Post("/readyz", "").status, 405);
  EXPECT_THAT(Post("/v2", "").headers, ElementsAre(Pair("Allow", "GET")));
}

TEST_F(HttpApiTest, RequestsAndBatchesAreCounted) {
  Serve();
  Post("/v1/models/m:predict", R"({"instances": [[1, 2, 3]]})");
  Post("/v1/models/m:predict", "{");
  const std::string text = Get("/metrics").body;
  EXPECT_THAT(text, HasSubstr("trainyard_serve_requests_total{code=\"200\",protocol=\"tensorflow\"} 1"));
  EXPECT_THAT(text, HasSubstr("trainyard_serve_requests_total{code=\"400\",protocol=\"tensorflow\"} 1"));
  EXPECT_THAT(text, HasSubstr("trainyard_serve_model_version 7"));
  EXPECT_THAT(text, HasSubstr("trainyard_serve_ready 1"));
}

TEST(HttpStatus, FollowsTheStatus) {
  EXPECT_EQ(HttpStatusOf(absl::ResourceExhaustedError("")), 429);
  EXPECT_EQ(HttpStatusOf(absl::DeadlineExceededError("")), 504);
  EXPECT_EQ(HttpStatusOf(absl::InternalError("")), 500);
  EXPECT_THAT(ErrorAnswer(429, "full").headers, ElementsAre(Pair("Retry-After", "1")));
}

}  // namespace
}  // namespace trainyard::engine
