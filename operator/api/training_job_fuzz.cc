// Any JSON as a TrainingJob or a Pod: never a crash, and a status that was read can be written and
// read again.
#include <cstdint>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string_view>

#include "operator/api/core.h"
#include "operator/api/validation.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace trainyard::control;  // NOLINT(google-build-using-namespace)
  const auto object =
      nlohmann::json::parse(std::string_view(reinterpret_cast<const char*>(data), size), nullptr, /*allow_exceptions=*/false);
  if (object.is_discarded()) return 0;
  const absl::StatusOr<TrainingJob> job = DecodeJob({}, object);
  if (job.ok()) {
    const TrainingJobStatus once = StatusFromJson(StatusToJson(job->status));
    if (StatusFromJson(StatusToJson(once)) != once) std::abort();
  }
  if (const absl::StatusOr<Pod> pod = Pod::FromJson(object); pod.ok()) pod->Main();
  return 0;
}
