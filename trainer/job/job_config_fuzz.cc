// Any bytes as a job file, a training.json and an override: an error or a job, never a crash, a
// hang or much memory.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "trainer/base/check.h"
#include "trainer/job/job_config.h"
#include "trainer/model/build_graph.h"

using trainyard::engine::BuildTrainingGraph;
using trainyard::engine::ParseJob;
using trainyard::engine::ParseTrainingText;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  // Replicas read the same text again, from training.json.
  if (const auto job = ParseJob(text, "fuzz.yaml"); job.ok()) {
    TY_CHECK(ParseTrainingText(job->training_json, "training.json").ok());
    TY_CHECK(BuildTrainingGraph(job->training.model, 16).ok());
  }
  (void)ParseJob(text, "fuzz.json");
  (void)ParseTrainingText(text, "training.json");
  static constexpr std::string_view kJob =
      "{apiVersion: trainyard.dev/v1alpha1, kind: TrainingJob, metadata: {name: a}, spec: {worker: {}, training: {model: {preset: linear}, "
      "data: {format: synthetic, train: {examples: 8}}, steps: 1}}}";
  const std::string overrides[] = {text.substr(0, 4096)};
  (void)ParseJob(kJob, "fuzz.yaml", overrides);
  return 0;
}
