// The CRD's own schema (crds/trainingjob.yaml, compiled in), used for what the API server does not
// tell: fields that it pruned or kept unread.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string_view>
#include <vector>

#include "operator/api/training_job.h"

namespace trainyard::control {

// The schema of `spec` as JSON. Parsed once, at the first call. Thread-safe.
const nlohmann::json& TrainingJobSpecSchema();

// Appends to `errors` every wrong type, unknown word and number out of range of `value`, and to
// `unknown` every unknown field, with paths below `path`. Nodes of the schema without `properties`
// or with x-kubernetes-preserve-unknown-fields accept every field.
void CheckAgainstSchema(const nlohmann::json& value, const nlohmann::json& schema, std::string_view path, std::vector<FieldError>& errors,
                        std::vector<FieldError>& unknown);

// Appends only the unknown fields of `value`: for a text that was not read by anyone, as kubectl's
// last applied configuration.
void FindUnknownFields(const nlohmann::json& value, const nlohmann::json& schema, std::string_view path, std::vector<FieldError>& unknown);

}  // namespace trainyard::control
