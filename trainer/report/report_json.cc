#include "trainer/report/report_json.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "trainer/base/parse_json.h"
#include "trainer/report/report_fields.h"

namespace trainyard::engine {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

ReplicaReport ReportOf(const json& object) {
  ReplicaReport report;
  FromJson(object.at("role"), report.role);
  FromJson(object.at("index"), report.index);
  GetField(object, "worker", report.worker);
  GetField(object, "server", report.server);
  GetField(object, "evaluator", report.evaluator);
  GetField(object, "staleness", report.staleness);
  FromJson(object.at("restarts"), report.restarts);
  const auto chief = object.find("chief");
  report.chief = chief != object.end();
  if (report.chief) VisitChiefFields(report, [&](const char* name, auto& field) { GetField(*chief, name, field); });
  return report;
}

}  // namespace

std::string ReplicaReportJson(const ReplicaReport& report) {
  ordered_json object = {{"role", report.role}, {"index", report.index}};
  PutField(object, "worker", report.worker);
  PutField(object, "server", report.server);
  PutField(object, "evaluator", report.evaluator);
  PutField(object, "staleness", report.staleness);
  object["restarts"] = ToJson(report.restarts);
  if (report.chief) {
    VisitChiefFields(report, [&](const char* name, const auto& field) { PutField(object["chief"], name, field); });
  }
  return object.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

absl::StatusOr<ReplicaReport> ParseReplicaReport(std::string_view text, std::string_view name) {
  const json object = ParseJson(text);
  if (object.is_discarded()) {
    return absl::InvalidArgumentError(fmt::format("{} is not a replica's report: no JSON of at most {} levels", name, kMostJsonLevels));
  }
  try {
    return ReportOf(object);
  } catch (const json::exception& error) {
    return absl::InvalidArgumentError(fmt::format("{} is not a replica's report: {}", name, error.what()));
  }
}

}  // namespace trainyard::engine
