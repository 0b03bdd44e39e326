#include "trainer/train/report_json.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "trainer/train/report_fields.h"

namespace trainyard::engine {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

template <typename Record>
ordered_json ListOf(const std::vector<Record>& records) {
  ordered_json list = ordered_json::array();
  for (const Record& record : records) list.push_back(ToJson(record));
  return list;
}

// JSON has no NaN: it is written as null.
void Get(const json& object, const char* name, double& value) {
  const json& field = object.at(name);
  value = field.is_null() ? std::numeric_limits<double>::quiet_NaN() : field.get<double>();
}

template <typename T>
void Get(const json& object, const char* name, T& value) {
  value = object.at(name).get<T>();
}

void Get(const json& object, const char* name, std::map<std::string, double>& values) {
  for (const auto& [key, value] : object.at(name).items()) Get(object.at(name), key.c_str(), values[key]);
}

EpochRecord EpochOf(const json& object) {
  EpochRecord record;
  Get(object, "epoch", record.epoch);
  Get(object, "step", record.step);
  Get(object, "loss", record.loss);
  Get(object, "seconds", record.seconds);
  if (object.contains("perplexity")) Get(object, "perplexity", record.perplexity.emplace());
  Get(object, "eval", record.eval);
  return record;
}

WorkerRecord WorkerOf(const json& object) {
  WorkerRecord record;
  Get(object, "index", record.index);
  Get(object, "batches", record.batches);
  Get(object, "examples", record.examples);
  Get(object, "seconds", record.seconds);
  Get(object, "inputSeconds", record.input_seconds);
  Get(object, "inputStages", record.input_stages);
  Get(object, "computeSeconds", record.compute_seconds);
  Get(object, "communicationSeconds", record.communication_seconds);
  Get(object, "bytesSent", record.bytes_sent);
  Get(object, "bytesReceived", record.bytes_received);
  Get(object, "cpuSeconds", record.cpu_seconds);
  Get(object, "maxRssBytes", record.max_rss_bytes);
  return record;
}

ServerRecord ServerOf(const json& object) {
  ServerRecord record;
  Get(object, "index", record.index);
  Get(object, "bytes", record.bytes);
  Get(object, "keys", record.keys);
  Get(object, "bytesSent", record.bytes_sent);
  Get(object, "bytesReceived", record.bytes_received);
  Get(object, "cpuSeconds", record.cpu_seconds);
  Get(object, "maxRssBytes", record.max_rss_bytes);
  return record;
}

RestartRecord RestartOf(const json& object) {
  RestartRecord record;
  Get(object, "replica", record.replica);
  Get(object, "reason", record.reason);
  Get(object, "step", record.step);
  Get(object, "lostSteps", record.lost_steps);
  return record;
}

ReplicaReport ReportOf(const json& object) {
  ReplicaReport report;
  Get(object, "role", report.role);
  Get(object, "index", report.index);
  if (auto worker = object.find("worker"); worker != object.end()) report.worker = WorkerOf(*worker);
  if (auto server = object.find("server"); server != object.end()) report.server = ServerOf(*server);
  if (auto staleness = object.find("staleness"); staleness != object.end()) {
    report.staleness.emplace();
    Get(*staleness, "mean", report.staleness->mean);
    Get(*staleness, "max", report.staleness->max);
  }
  for (const json& restart : object.at("restarts")) report.restarts.push_back(RestartOf(restart));
  auto chief = object.find("chief");
  if (chief == object.end()) return report;
  report.chief = true;
  Get(*chief, "unit", report.unit.name);
  Get(*chief, "unitsPerExample", report.unit.per_example);
  Get(*chief, "model", report.model);
  Get(*chief, "strategy", report.strategy);
  Get(*chief, "batchSize", report.batch_size);
  Get(*chief, "epochs", report.epochs);
  Get(*chief, "steps", report.steps);
  Get(*chief, "eval", report.eval);
  for (const json& epoch : chief->at("history")) report.history.push_back(EpochOf(epoch));
  Get(*chief, "parametersSha256", report.parameters_sha256);
  if (auto best = chief->find("best"); best != chief->end()) {
    report.best.emplace();
    Get(*best, "metric", report.best->metric);
    Get(*best, "value", report.best->value);
    Get(*best, "step", report.best->step);
    Get(*best, "checkpoint", report.best->checkpoint);
    Get(*best, "restored", report.best->restored);
  }
  if (auto stopped = chief->find("stoppedEarly"); stopped != chief->end()) {
    report.stopped_early.emplace();
    Get(*stopped, "reason", report.stopped_early->reason);
    Get(*stopped, "step", report.stopped_early->step);
  }
  return report;
}

}  // namespace

ordered_json ToJson(const EpochRecord& record) {
  ordered_json object = {{"epoch", record.epoch}, {"step", record.step}, {"loss", record.loss}};
  if (record.perplexity) object["perplexity"] = *record.perplexity;
  object["seconds"] = record.seconds;
  object["eval"] = record.eval;
  return object;
}

ordered_json ToJson(const WorkerRecord& record) {
  return {{"index", record.index},
          {"batches", record.batches},
          {"examples", record.examples},
          {"seconds", record.seconds},
          {"inputSeconds", record.input_seconds},
          {"inputStages", ordered_json(record.input_stages)},
          {"computeSeconds", record.compute_seconds},
          {"communicationSeconds", record.communication_seconds},
          {"bytesSent", record.bytes_sent},
          {"bytesReceived", record.bytes_received},
          {"cpuSeconds", record.cpu_seconds},
          {"maxRssBytes", record.max_rss_bytes}};
}

ordered_json ToJson(const ServerRecord& record) {
  return {{"index", record.index},
          {"bytes", record.bytes},
          {"keys", record.keys},
          {"bytesSent", record.bytes_sent},
          {"bytesReceived", record.bytes_received},
          {"cpuSeconds", record.cpu_seconds},
          {"maxRssBytes", record.max_rss_bytes}};
}

ordered_json ToJson(const Staleness& staleness) { return {{"mean", staleness.mean}, {"max", staleness.max}}; }

ordered_json ToJson(const RestartRecord& record) {
  return {{"replica", record.replica}, {"reason", record.reason}, {"step", record.step}, {"lostSteps", record.lost_steps}};
}

ordered_json ToJson(const BestRecord& record) {
  return {{"metric", record.metric},
          {"value", record.value},
          {"step", record.step},
          {"checkpoint", record.checkpoint},
          {"restored", record.restored}};
}

ordered_json ToJson(const EarlyStopRecord& record) { return {{"reason", record.reason}, {"step", record.step}}; }

std::string ReplicaReportJson(const ReplicaReport& report) {
  ordered_json object = {{"role", report.role}, {"index", report.index}};
  if (report.worker) object["worker"] = ToJson(*report.worker);
  if (report.server) object["server"] = ToJson(*report.server);
  if (report.staleness) object["staleness"] = ToJson(*report.staleness);
  object["restarts"] = ListOf(report.restarts);
  if (report.chief) {
    object["chief"] = {{"unit", report.unit.name},
                       {"unitsPerExample", report.unit.per_example},
                       {"model", report.model},
                       {"strategy", report.strategy},
                       {"batchSize", report.batch_size},
                       {"epochs", report.epochs},
                       {"steps", report.steps},
                       {"eval", ordered_json(report.eval)},
                       {"history", ListOf(report.history)},
                       {"parametersSha256", report.parameters_sha256}};
    if (report.best) object["chief"]["best"] = ToJson(*report.best);
    if (report.stopped_early) object["chief"]["stoppedEarly"] = ToJson(*report.stopped_early);
  }
  return object.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

absl::StatusOr<ReplicaReport> ParseReplicaReport(std::string_view text, std::string_view name) {
  try {
    return ReportOf(json::parse(text));
  } catch (const json::exception& error) {
    return absl::InvalidArgumentError(fmt::format("{} is not a replica's report: {}", name, error.what()));
  }
}

}  // namespace trainyard::engine
