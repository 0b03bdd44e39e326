// The CRD's schema of spec.training and the trainer's reader of it know the same fields and the
// same words.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "operator/api/yaml.h"
#include "trainer/job/job_config.h"

namespace trainyard {
namespace {

using nlohmann::json;
using Pointer = json::json_pointer;

json SpecSchema() {
  std::ifstream file("crds/trainingjob.yaml");
  std::stringstream text;
  text << file.rdbuf();
  const auto crd = control::YamlToJson(text.str());
  EXPECT_TRUE(crd.ok()) << crd.status();
  return (*crd)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"];
}

json TrainingSchema() { return SpecSchema()["training"]; }

// Jobs that together have every field: most belong to one data format, optimizer, schedule,
// strategy or way to give a model.
std::vector<json> Trainings() {
  const json schema = TrainingSchema()["properties"];
  const json whole = {{"model", {{"preset", "lenet5"}}},
                      {"data", json::parse(R"({"format": "synthetic", "train": {"examples": 8}, "eval": {"examples": 8}})")},
                      {"steps", 5}};
  std::vector<json> trainings = {whole};
  const auto add = [&](const char* pointer, const json& value) {
    trainings.push_back(whole);
    trainings.back()[Pointer(pointer)] = value;
  };
  for (const json& format : schema["data"]["properties"]["format"]["enum"]) {
    add("/data", {{"format", format}, {"train", json::object()}, {"eval", json::object()}});
  }
  add("/data", {{"format", "images"}});  // without eval, in whose place evalFraction stands
  for (const json& name : schema["optimizer"]["properties"]["name"]["enum"]) add("/optimizer/name", name);
  for (const json& name : schema["optimizer"]["properties"]["schedule"]["properties"]["name"]["enum"])
    add("/optimizer/schedule/name", name);
  for (const json& preset : schema["model"]["properties"]["preset"]["enum"]) add("/model", {{"preset", preset}});
  for (const char* mode : {"sync", "async"}) add("/strategy/parameterServer/mode", mode);
  add("/strategy/allReduce/algorithm", "direct");
  add("/model", json::parse(R"({"input": {"shape": [4]}, "layers": [{"dense": {"units": 2}}], "loss": {"name": "softmaxCrossEntropy"}})"));
  return trainings;
}

std::string ErrorsOf(const json& training) {
  const auto read = engine::ParseTrainingText(training.dump(), "training.json");
  return read.ok() ? "" : std::string(read.status().message());
}

// The bounds that the API server accepts as values of a number.
std::vector<json> BoundsOf(const json& schema) {
  std::vector<json> bounds;
  if (schema.contains("minimum") && !schema.value("exclusiveMinimum", false)) bounds.push_back(schema["minimum"]);
  if (schema.contains("maximum") && !schema.value("exclusiveMaximum", false)) bounds.push_back(schema["maximum"]);
  return bounds;
}

// Values that the API server accepts at this place.
std::vector<json> ValuesOf(const json& schema) {
  if (schema.contains("example")) return {schema["example"]};  // of docs/job.md
  if (schema.contains("enum")) return schema["enum"];
  const std::string type = schema.value("type", "");
  if (type == "integer") return {schema.value("minimum", 4)};
  if (type == "number") return {0.5};
  if (type == "boolean") return {true, false};
  if (type == "string") return {"x"};
  if (type == "array" && schema.value("maxItems", 0) == 2 && schema["items"].value("type", "") == "integer") return {json::array({2, 3})};
  if (type == "array") return {schema["items"].value("type", "") == "number" ? json::array({0, 0.5}) : json::array({2, 3, 4})};
  if (type.empty()) return {1};
  return {json::object()};
}

// A field and the text of its path in errors.
struct Field {
  Pointer pointer;
  std::string path;
};

template <typename Visitor>
void Walk(const json& schema, const Field& field, const Visitor& visit) {
  visit(schema, field);
  if (!schema.contains("properties")) return;
  for (const auto& [name, inner] : schema["properties"].items()) Walk(inner, {field.pointer / name, field.path + "." + name}, visit);
}

// The errors of the field itself, without those of fields below it or beside it.
std::string SaidOf(const std::string& path, const std::string& errors) {
  std::istringstream lines(errors);
  for (std::string line; std::getline(lines, line);) {
    if (line.find(": " + path + ": ") != std::string::npos) return line;
  }
  return "";
}

// Fields that decide which other fields there are: a value of any kind would be refused for another
// reason.
bool Decides(const std::string& path) {
  return path == "spec.training" || path == "spec.training.model.preset" || path == "spec.training.model.loss" ||
         path == "spec.training.model.loss.name" || path == "spec.training.epochs" || path == "spec.training.strategy";
}

TEST(TrainingSchema, TheTrainerTakesEveryFieldAndWordThatTheCrdOffers) {
  const std::vector<json> trainings = Trainings();
  int tried = 0;
  Walk(TrainingSchema(), {Pointer(), "spec.training"}, [&](const json& schema, const Field& field) {
    if (Decides(field.path)) return;
    std::vector<json> values = ValuesOf(schema);
    const bool by_model = field.path == "spec.training.data.channels";  // whose input says how many
    for (json& bound : BoundsOf(schema)) {
      if (!by_model) values.push_back(std::move(bound));
    }
    for (const json& value : values) {
      bool taken = false;
      std::string refusals;
      for (size_t i = 0; i < trainings.size() && !taken; ++i) {
        json training = trainings[i];
        training[field.pointer] = value;
        if (field.path == "spec.training.optimizer.schedule.minimum") training["optimizer"]["learningRate"] = value;  // its bound
        const std::string errors = ErrorsOf(training);
        std::string said = SaidOf(field.path, errors);
        // Where what holds the field is unknown, the field is too.
        if (said.empty()) said = SaidOf(field.path.substr(0, field.path.rfind('.')), errors);
        taken = said.empty();
        refusals += said + "\n";
      }
      EXPECT_TRUE(taken) << field.path << ": " << value << "\n" << refusals;
      ++tried;
    }
  });
  EXPECT_GT(tried, 60);
}

TEST(TrainingSchema, TheTrainerTakesEveryPresetOptimizerAndFormatByItsName) {
  const json schema = TrainingSchema();
  for (const char* path : {"/model/preset", "/data/format"}) {
    const Pointer place(path);
    const Pointer in_schema = Pointer("/properties") / place.parent_pointer().back() / "properties" / place.back();
    for (const json& word : schema[in_schema]["enum"]) {
      json training = Trainings()[0];
      training[place] = word;
      EXPECT_THAT(ErrorsOf(training), ::testing::Not(::testing::HasSubstr(place.back() + ": found"))) << word;
    }
  }
  json epochs = Trainings()[0];
  epochs.erase("steps");
  epochs["epochs"] = 1;
  EXPECT_EQ(ErrorsOf(epochs), "");
}

TEST(JobSchema, LaunchRefusesNoFieldOfTheCrdAsUnknown) {
  const json spec = SpecSchema();
  const json training = Trainings()[0];
  int tried = 0;
  for (const auto& [part, schema] : spec.items()) {
    if (part == "training" || !schema.contains("properties")) continue;
    for (const auto& [name, inner] : schema["properties"].items()) {
      for (const json& value : ValuesOf(inner)) {
        const json job = {{"apiVersion", "trainyard.dev/v1alpha1"},
                          {"kind", "TrainingJob"},
                          {"metadata", {{"name", "test"}}},
                          {"spec", {{"training", training}, {part, {{name, value}}}}}};
        const auto read = engine::ParseJob(job.dump(), "job.json");
        EXPECT_THAT(std::string(read.status().message()), ::testing::Not(::testing::HasSubstr("unknown field"))) << part << "." << name;
        ++tried;
      }
    }
  }
  EXPECT_GT(tried, 20);
}

std::set<std::string> WordsOf(const std::string& list) {
  std::set<std::string> words;
  const std::regex word("[^, ]+");
  for (std::sregex_iterator match(list.begin(), list.end(), word), end; match != end; ++match) words.insert(match->str());
  return words;
}

// The names that the reader lists behind `intro`, when it is given a name that it cannot know;
// nothing where it lists none.
std::set<std::string> KnownTo(const json& training, const std::string& path, const std::string& intro) {
  const std::string said = SaidOf(path, ErrorsOf(training));
  const size_t begin = said.find(intro);
  return begin == std::string::npos ? std::set<std::string>() : WordsOf(said.substr(begin + intro.size()));
}

TEST(TrainingSchema, TheCrdOffersEveryFieldAndWordThatTheTrainerKnows) {
  const std::string unknown = "qqqqqqqqqqqqqqqq";
  const std::vector<json> trainings = Trainings();
  // Together, over all jobs.
  const auto known_to = [&](const Pointer& place, const json& value, const std::string& path, const std::string& intro) {
    std::set<std::string> known;
    for (json training : trainings) {
      training[place] = value;
      known.merge(KnownTo(training, path, intro));
    }
    return known;
  };
  Walk(TrainingSchema(), {Pointer(), "spec.training"}, [&](const json& schema, const Field& field) {
    if (schema.contains("enum")) {
      const std::vector<std::string> words = schema["enum"];
      EXPECT_EQ(known_to(field.pointer, unknown, field.path, "expected one of "), std::set<std::string>(words.begin(), words.end()))
          << field.path;
    }
    // An object that keeps fields which it does not list is read further by the trainer alone.
    if (schema.value("type", "") != "object" || schema.value("x-kubernetes-preserve-unknown-fields", false)) return;
    std::set<std::string> offered;
    if (schema.contains("properties")) {
      for (const auto& [name, inner] : schema["properties"].items()) offered.insert(name);
    }
    if (offered.empty()) return;
    EXPECT_EQ(known_to(field.pointer / unknown, 1, field.path + "." + unknown, "known here: "), offered) << field.path;
  });
}

}  // namespace
}  // namespace trainyard
