#include "trainer/profile/replica_profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <tuple>

#include "trainer/base/file.h"
#include "trainer/base/status_macros.h"

namespace trainyard::engine {
namespace {

using nlohmann::json;

constexpr int64_t kMostBytes = int64_t{1} << 28;  // more than SpanLog::kMostSpans take
constexpr size_t kSpanFields = 6;

bool IsOfOperator(SpanKind kind) { return kind == SpanKind::kNode; }
bool IsOfTensor(SpanKind kind) {
  return kind == SpanKind::kPush || kind == SpanKind::kArrived || kind == SpanKind::kPull || kind == SpanKind::kReceive ||
         kind == SpanKind::kSum;
}

absl::Status CheckSpan(const ReplicaProfile& profile, const Span& span) {
  const auto is_index = [&](size_t size) { return span.id >= 0 && static_cast<size_t>(span.id) < size; };
  if (IsOfOperator(span.kind) && !is_index(profile.operators.size())) {
    return absl::InvalidArgumentError(fmt::format("operator {} is not among the {} that are listed", span.id, profile.operators.size()));
  }
  if (IsOfTensor(span.kind) && !is_index(profile.tensors.size())) {
    return absl::InvalidArgumentError(fmt::format("tensor {} is not among the {} that are listed", span.id, profile.tensors.size()));
  }
  if (span.start < 0 || span.end < span.start) {
    return absl::InvalidArgumentError(fmt::format("found start {} and end {}, expected 0 <= start <= end", span.start, span.end));
  }
  return absl::OkStatus();
}

absl::StatusOr<Span> SpanOf(const json& fields) {
  if (!fields.is_array() || fields.size() != kSpanFields) {
    return absl::InvalidArgumentError("expected [kind, id, worker, step, start, end]");
  }
  const auto kind = fields[0].get<int64_t>();
  if (kind < 0 || kind >= kSpanKinds) {
    return absl::InvalidArgumentError(fmt::format("kind is {}, expected 0 to {}", kind, kSpanKinds - 1));
  }
  return Span{.kind = static_cast<SpanKind>(kind),
              .id = fields[1].get<int32_t>(),
              .worker = fields[2].get<int32_t>(),
              .step = fields[3].get<int64_t>(),
              .start = fields[4].get<int64_t>(),
              .end = fields[5].get<int64_t>()};
}

absl::StatusOr<ReplicaProfile> ProfileOf(const json& object) {
  ReplicaProfile profile;
  profile.role = object.at("role").get<std::string>();
  profile.index = object.at("index").get<int>();
  profile.rank = object.at("rank").get<int>();
  profile.steps = {.begin = object.at("steps").at(0).get<int64_t>(), .end = object.at("steps").at(1).get<int64_t>()};
  profile.dropped = object.at("dropped").get<int64_t>();
  for (const json& node : object.at("operators")) {
    profile.operators.push_back({.name = node.at("name").get<std::string>(),
                                 .kind = node.at("kind").get<std::string>(),
                                 .flops = node.at("flops").get<int64_t>(),
                                 .bytes = node.at("bytes").get<int64_t>()});
  }
  profile.tensors = object.at("tensors").get<std::vector<std::string>>();
  for (const json& fields : object.at("spans")) {
    absl::StatusOr<Span> span = SpanOf(fields);
    const absl::Status status = span.ok() ? CheckSpan(profile, *span) : span.status();
    if (!status.ok()) return WithContext(status, fmt::format("spans[{}]", profile.spans.size()));
    profile.spans.push_back(*span);
  }
  return profile;
}

}  // namespace

std::string ReplicaProfileJson(const ReplicaProfile& profile) {
  nlohmann::ordered_json object = {{"role", profile.role},
                                   {"index", profile.index},
                                   {"rank", profile.rank},
                                   {"steps", {profile.steps.begin, profile.steps.end}},
                                   {"dropped", profile.dropped}};
  object["operators"] = json::array();
  for (const OperatorInfo& node : profile.operators) {
    object["operators"].push_back({{"name", node.name}, {"kind", node.kind}, {"flops", node.flops}, {"bytes", node.bytes}});
  }
  object["tensors"] = profile.tensors;
  object["spans"] = json::array();
  for (const Span& span : profile.spans) {
    object["spans"].push_back({static_cast<int>(span.kind), span.id, span.worker, span.step, span.start, span.end});
  }
  return object.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
}

absl::StatusOr<ReplicaProfile> ParseReplicaProfile(std::string_view text, std::string_view name) {
  try {
    absl::StatusOr<ReplicaProfile> profile = ProfileOf(json::parse(text));
    if (!profile.ok()) return WithContext(profile.status(), fmt::format("{} is not a replica's profile", name));
    return profile;
  } catch (const json::exception& error) {
    return absl::InvalidArgumentError(fmt::format("{} is not a replica's profile: {}", name, error.what()));
  }
}

std::string ProfileFolder(const std::string& dir) { return dir + "/profiles"; }

absl::Status WriteReplicaProfile(const std::string& dir, const ReplicaProfile& profile) {
  TY_RETURN_IF_ERROR(MakeDirectories(ProfileFolder(dir)));
  return ReplaceFile(fmt::format("{}/{}.json", ProfileFolder(dir), profile.name()), ReplicaProfileJson(profile));
}

absl::StatusOr<std::vector<ReplicaProfile>> ReadReplicaProfiles(const std::string& dir) {
  namespace fs = std::filesystem;
  std::vector<ReplicaProfile> profiles;
  std::error_code error;
  fs::directory_iterator it(ProfileFolder(dir), error);
  if (error == std::errc::no_such_file_or_directory) return profiles;
  for (const fs::directory_iterator end; !error && it != end; it.increment(error)) {
    const std::string path = it->path().string();
    if (it->path().extension() != ".json") continue;
    TY_ASSIGN_OR_RETURN(const std::string text, ReadFile(path, kMostBytes));
    TY_ASSIGN_OR_RETURN(ReplicaProfile profile, ParseReplicaProfile(text, path));
    profiles.push_back(std::move(profile));
  }
  if (error) return FileError(error.value(), "list folder", ProfileFolder(dir));
  std::ranges::sort(profiles, {},
                    [](const ReplicaProfile& profile) { return std::tuple(profile.rank < 0, profile.rank, profile.role, profile.index); });
  return profiles;
}

}  // namespace trainyard::engine
