// The records of report.json: each names its fields once, and is written and read by that list.
#pragma once

#include <concepts>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "trainer/base/whole_number.h"
#include "trainer/report/replica_report.h"

namespace trainyard::engine {

template <typename T, typename Record>
concept ThisRecord = std::same_as<std::remove_const_t<T>, Record>;

template <typename Visitor>
void VisitFields(ThisRecord<EpochRecord> auto& record, Visitor visit) {
  visit("epoch", record.epoch);
  visit("step", record.step);
  visit("loss", record.loss);
  visit("seconds", record.seconds);
  visit("perplexity", record.perplexity);
  visit("eval", record.eval);
}

template <typename Visitor>
void VisitFields(ThisRecord<UsagePoint> auto& record, Visitor visit) {
  visit("seconds", record.seconds);
  visit("cpuCores", record.cpu_cores);
  visit("residentBytes", record.resident_bytes);
}

template <typename Visitor>
void VisitUsage(ThisRecord<UsageRecord> auto& record, Visitor visit) {
  visit("cpuSeconds", record.cpu_seconds);
  visit("cpuCores", record.cpu_cores);
  visit("maxRssBytes", record.max_rss_bytes);
  visit("usage", record.points);
}

template <typename Visitor>
void VisitFields(ThisRecord<GpuRecord> auto& record, Visitor visit) {
  visit("gpu", record.gpu);
  visit("name", record.name);
  visit("memoryTotalBytes", record.memory_total_bytes);
  visit("maxMemoryUsedBytes", record.max_memory_used_bytes);
  visit("utilization", record.utilization);
}

template <typename Visitor>
void VisitFields(ThisRecord<WorkerRecord> auto& record, Visitor visit) {
  visit("index", record.index);
  visit("batches", record.batches);
  visit("examples", record.examples);
  visit("skippedBatches", record.skipped);
  visit("lossScale", record.loss_scale);
  visit("overflowedBatches", record.overflowed);
  visit("seconds", record.seconds);
  visit("inputSeconds", record.input_seconds);
  visit("inputStages", record.input_stages);
  visit("computeSeconds", record.compute_seconds);
  visit("communicationSeconds", record.communication_seconds);
  visit("slotBytes", record.slot_bytes);
  visit("bytesSent", record.bytes_sent);
  visit("bytesReceived", record.bytes_received);
  VisitUsage(record.usage, visit);
  visit("gpus", record.gpus);
}

template <typename Visitor>
void VisitFields(ThisRecord<ServerRecord> auto& record, Visitor visit) {
  visit("index", record.index);
  visit("bytes", record.bytes);
  visit("keys", record.keys);
  visit("bytesSent", record.bytes_sent);
  visit("bytesReceived", record.bytes_received);
  visit("refusedStreams", record.refused_streams);
  VisitUsage(record.usage, visit);
}

template <typename Visitor>
void VisitFields(ThisRecord<ScoreRecord> auto& record, Visitor visit) {
  visit("step", record.step);
  visit("epoch", record.epoch);
  visit("metrics", record.metrics);
  visit("seconds", record.seconds);
}

template <typename Visitor>
void VisitFields(ThisRecord<EvaluatorRecord> auto& record, Visitor visit) {
  visit("index", record.index);
  visit("evaluations", record.evaluations);
  visit("metric", record.metric);
  visit("best", record.best);
  visit("last", record.last);
}

template <typename Visitor>
void VisitFields(ThisRecord<Staleness> auto& record, Visitor visit) {
  visit("mean", record.mean);
  visit("max", record.max);
}

template <typename Visitor>
void VisitFields(ThisRecord<RestartRecord> auto& record, Visitor visit) {
  visit("replica", record.replica);
  visit("reason", record.reason);
  visit("step", record.step);
  visit("lostSteps", record.lost_steps);
}

template <typename Visitor>
void VisitFields(ThisRecord<RedoneRecord> auto& record, Visitor visit) {
  visit("from", record.from);
  visit("to", record.to);
  visit("reason", record.reason);
}

template <typename Visitor>
void VisitFields(ThisRecord<StragglerRecord> auto& record, Visitor visit) {
  visit("replica", record.replica);
  visit("node", record.node);
  visit("from", record.from);
  visit("to", record.to);
  visit("stepSeconds", record.step_seconds);
  visit("medianSeconds", record.median_seconds);
}

template <typename Visitor>
void VisitFields(ThisRecord<BestRecord> auto& record, Visitor visit) {
  visit("metric", record.metric);
  visit("value", record.value);
  visit("step", record.step);
  visit("checkpoint", record.checkpoint);
  visit("restored", record.restored);
}

template <typename Visitor>
void VisitFields(ThisRecord<EarlyStopRecord> auto& record, Visitor visit) {
  visit("reason", record.reason);
  visit("step", record.step);
}

template <typename Visitor>
void VisitFields(ThisRecord<AllReduceRecord> auto& record, Visitor visit) {
  visit("algorithm", record.algorithm);
  visit("latencySeconds", record.latency_seconds);
  visit("bytesPerSecond", record.bytes_per_second);
}

// Fields of the chief alone.
template <typename Visitor>
void VisitChiefFields(ThisRecord<ReplicaReport> auto& report, Visitor visit) {
  visit("unit", report.unit.name);
  visit("unitsPerExample", report.unit.per_example);
  visit("model", report.model);
  visit("strategy", report.strategy);
  visit("batchSize", report.batch_size);
  visit("devices", report.devices);
  visit("precision", report.precision);
  visit("precisionReason", report.precision_reason);
  visit("kernels", report.kernels);
  visit("computedOn", report.computed_on);
  visit("computedOnReason", report.computed_on_reason);
  visit("epochs", report.epochs);
  visit("plannedEpochs", report.planned_epochs);
  visit("steps", report.steps);
  visit("plannedSteps", report.planned_steps);
  visit("firstLoss", report.first_loss);
  visit("lastLoss", report.last_loss);
  visit("warning", report.warning);
  visit("eval", report.eval);
  visit("history", report.history);
  visit("redone", report.redone);
  visit("stragglers", report.stragglers);
  visit("parametersSha256", report.parameters_sha256);
  visit("best", report.best);
  visit("stoppedEarly", report.stopped_early);
  visit("allReduce", report.all_reduce);
}

// One field of a record; where it has no value the object has no such field.
template <typename T>
void PutField(nlohmann::ordered_json& object, const char* name, const T& field);
template <typename T>
void PutField(nlohmann::ordered_json& object, const char* name, const std::optional<T>& field);
template <typename T>
void GetField(const nlohmann::json& object, const char* name, T& field);
template <typename T>
void GetField(const nlohmann::json& object, const char* name, std::optional<T>& field);

// A record → an object, a list of records → an array, anything else as nlohmann has it. JSON has no
// NaN: it is written as null.
template <typename T>
nlohmann::ordered_json ToJson(const T& value);
template <typename Record>
nlohmann::ordered_json ToJson(const std::vector<Record>& records);

// The way back. Throws nlohmann::json::exception, which names the field.
template <typename T>
void FromJson(const nlohmann::json& json, T& value);
template <typename Record>
void FromJson(const nlohmann::json& json, std::vector<Record>& records);
inline void FromJson(const nlohmann::json& json, std::map<std::string, double>& values);

template <typename T>
nlohmann::ordered_json ToJson(const T& value) {
  if constexpr (requires { VisitFields(value, [](const char*, const auto&) {}); }) {
    nlohmann::ordered_json object = nlohmann::ordered_json::object();
    VisitFields(value, [&object](const char* name, const auto& field) { PutField(object, name, field); });
    return object;
  } else {
    return nlohmann::ordered_json(value);
  }
}

template <typename Record>
nlohmann::ordered_json ToJson(const std::vector<Record>& records) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const Record& record : records) list.push_back(ToJson(record));
  return list;
}

template <typename T>
void FromJson(const nlohmann::json& json, T& value) {
  if constexpr (requires { VisitFields(value, [](const char*, auto&) {}); }) {
    VisitFields(value, [&json](const char* name, auto& field) { GetField(json, name, field); });
  } else if constexpr (std::same_as<T, double>) {
    value = json.is_null() ? std::numeric_limits<double>::quiet_NaN() : json.get<double>();
  } else if constexpr (std::integral<T> && !std::same_as<T, bool>) {
    value = GetWhole<T>(json);
  } else {
    value = json.get<T>();
  }
}

template <typename Record>
void FromJson(const nlohmann::json& json, std::vector<Record>& records) {
  for (const nlohmann::json& item : json) FromJson(item, records.emplace_back());
}

template <typename T>
void PutField(nlohmann::ordered_json& object, const char* name, const T& field) {
  object[name] = ToJson(field);
}

template <typename T>
void PutField(nlohmann::ordered_json& object, const char* name, const std::optional<T>& field) {
  if (field) object[name] = ToJson(*field);
}

template <typename T>
void GetField(const nlohmann::json& object, const char* name, T& field) {
  FromJson(object.at(name), field);
}

template <typename T>
void GetField(const nlohmann::json& object, const char* name, std::optional<T>& field) {
  if (const auto found = object.find(name); found != object.end()) FromJson(*found, field.emplace());
}

inline void FromJson(const nlohmann::json& json, std::map<std::string, double>& values) {
  for (const auto& [key, value] : json.items()) FromJson(value, values[key]);
}

}  // namespace trainyard::engine
