#include "tests/fake_apiserver/answers.h"

#include <fmt/format.h>

#include "operator/api/resource.h"
#include "tests/fake_apiserver/selector.h"

namespace trainyard::control {

using Json = nlohmann::json;

HttpResponse Answer(int code, const Json& body) { return {.code = code, .body = body.dump()}; }

HttpResponse Refusal(int code, const std::string& reason, const std::string& message) {
  return Answer(
      code, {{"kind", "Status"}, {"apiVersion", "v1"}, {"status", "Failure"}, {"code", code}, {"reason", reason}, {"message", message}});
}

HttpResponse NotFound(const Target& target) {
  return Refusal(404, "NotFound", fmt::format("{} \"{}\" not found", target.plural, target.name));
}

absl::Status Broken() { return absl::UnavailableError("the connection broke"); }

std::string KeyOf(const Json& object) { return ObjectKey(object["metadata"].value("namespace", ""), object["metadata"].value("name", "")); }

bool Selected(const Target& target, const Json& object) {
  return !object.is_null() && (target.ns.empty() || object["metadata"].value("namespace", "") == target.ns) &&
         MatchesLabels(target.Parameter("labelSelector"), object) && MatchesFields(target.Parameter("fieldSelector"), object);
}

}  // namespace trainyard::control
