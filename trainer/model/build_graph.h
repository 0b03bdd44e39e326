// ModelSpec → forward graphs for one batch size. All graphs of one spec have the same parameters
// with the same keys.
#pragma once

#include <cstdint>
#include <string_view>

#include "absl/status/statusor.h"
#include "trainer/config/field_errors.h"
#include "trainer/graph/graph.h"
#include "trainer/model/model_spec.h"

namespace trainyard::engine {

// Names of feeds and of outputs that can be fetched. Classification is softmaxCrossEntropy,
// regression meanSquaredError.
inline constexpr std::string_view kLabelsFeed = "labels";                  // classification: i32 [batch, ..] class numbers
inline constexpr std::string_view kTargetFeed = "target";                  // regression: f32 of the output's shape
inline constexpr std::string_view kLossOutput = "loss";                    // [], the mean over the batch
inline constexpr std::string_view kCorrectOutput = "correct";              // classification: [], how many labels had the highest score
inline constexpr std::string_view kLogitsOutput = "logits";                // classification: the scores before softmax; not in training
inline constexpr std::string_view kProbabilitiesOutput = "probabilities";  // classification, inference only
inline constexpr std::string_view kPredictionOutput = "prediction";        // regression

// Feeds kInputName (u8 pixels are scaled to 0…1, f32 taken as they are) and kLabelsFeed or
// kTargetFeed. Outputs: loss, and for regression prediction; no logits, so a backend need not keep
// them. Graph::loss() is set: an executor adds a gradient for every trainable parameter.
// InvalidArgument names the layer whose shapes do not fit. That is never so for a spec that
// ParseModelSpec accepted, at any batch from 1 to kMaxBatch.
absl::StatusOr<Graph> BuildTrainingGraph(const ModelSpec& spec, int64_t batch);
// The same without that mark; classification has the output correct too, and logits where an
// example has one label.
absl::StatusOr<Graph> BuildEvaluationGraph(const ModelSpec& spec, int64_t batch);
// Feeds kInputName only. Outputs: logits and probabilities, or prediction.
absl::StatusOr<Graph> BuildInferenceGraph(const ModelSpec& spec, int64_t batch);
// The same without outputs: a step reads its input into the states, and computes nothing else.
absl::StatusOr<Graph> BuildReadingGraph(const ModelSpec& spec, int64_t batch);

// The parameters in key order.
absl::StatusOr<std::vector<ParameterSpec>> ParameterSpecsOf(const ModelSpec& spec);
// How each of them starts.
absl::StatusOr<std::vector<StartValue>> StartValuesOf(const ModelSpec& spec);
// How many classes the labels have: the last extent of the output; 0 for regression.
absl::StatusOr<int> ClassCountOf(const ModelSpec& spec);
// The shape of the output (regression: of the target) of one example.
absl::StatusOr<Shape> OutputShapeOf(const ModelSpec& spec);

// Adds an error at the path of the layer whose shapes do not fit; nothing when a graph can be
// built.
void CheckModelShapes(const ModelSpec& spec, FieldErrors& errors);

inline constexpr int64_t kMaxBatch = int64_t{1} << 20;

}  // namespace trainyard::engine
