// Answers of the fake API server that several requests have.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "absl/status/status.h"
#include "operator/kube/transport.h"
#include "tests/fake_apiserver/target.h"

namespace trainyard::control {

HttpResponse Answer(int code, const nlohmann::json& body);
// A Status object.
HttpResponse Refusal(int code, const std::string& reason, const std::string& message);
HttpResponse NotFound(const Target& target);
// In place of an answer: the client hears nothing.
absl::Status Broken();

// "namespace/name" of an object.
std::string KeyOf(const nlohmann::json& object);
// Whether a list or watch of `target` has the object.
bool Selected(const Target& target, const nlohmann::json& object);

}  // namespace trainyard::control
