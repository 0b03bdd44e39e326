// The text of a job file → JSON, with what a hostile text may cost bounded: bytes, depth, names,
// and what aliases expand to.
#pragma once

#include <nlohmann/json.hpp>
#include <string_view>

#include "absl/status/statusor.h"
#include "trainer/config/field_errors.h"

namespace trainyard::engine {

inline constexpr size_t kMaxJobBytes = size_t{1} << 20;  // as a ConfigMap's

struct JobText {
  nlohmann::json value;
  PathLines lines;  // of YAML; empty for JSON
};

// YAML 1.2's core schema with anchors and aliases, one document. Plain `yes`, `no`, `on` and `off`
// are texts (and so no booleans by surprise), as is what overflows a double. InvalidArgument names
// `source` and the line: not YAML, two documents, a field given twice, a tag that is not known, too
// much of anything.
absl::StatusOr<JobText> ReadYaml(std::string_view text, std::string_view source);

// The same for JSON (RFC 8259).
absl::StatusOr<JobText> ReadJson(std::string_view text, std::string_view source);

// JSON when `source` ends with ".json", otherwise YAML.
absl::StatusOr<JobText> ReadJobText(std::string_view text, std::string_view source);

}  // namespace trainyard::engine
