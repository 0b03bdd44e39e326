#include "trainer/profile/replica_profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <tuple>

#include "trainer/base/file.h"
#include "trainer/base/parse_json.h"
#include "trainer/base/status_macros.h"

namespace trainyard::engine {
namespace {

using nlohmann::json;

constexpr int64_t kMostBytes = int64_t{1} << 28;  // more than SpanLog::kMostSpans take
constexpr size_t kSpanFields = 6;
// So that neither differences nor sums of times leave an int64.
constexpr int64_t kLastNano = int64_t{1} << 61;     // in the year 2043
constexpr int64_t kLongestSpan = int64_t{1} << 42;  // more than an hour
constexpr int64_t kMostCount = int64_t{1} << 53;
constexpr int64_t kLastDevice = 255;

bool IsOfTensor(SpanKind kind) {
  return kind == SpanKind::kPush || kind == SpanKind::kArrived || kind == SpanKind::kPull || kind == SpanKind::kReceive ||
         kind == SpanKind::kSum || kind == SpanKind::kBucket;
}

// Whole numbers of a text that may hold anything; the first that does not fit is kept in `status`.
struct IntegerReader {
  absl::Status status;

  int64_t Get(const json& value, std::string_view name, int64_t least, int64_t most) {
    const bool fits =
        value.is_number_integer() && (!value.is_number_unsigned() || value.get<uint64_t>() <= static_cast<uint64_t>(kLastNano));
    const int64_t number = fits ? value.get<int64_t>() : 0;
    if ((!fits || number < least || number > most) && status.ok()) {
      status = absl::InvalidArgumentError(
          fmt::format("{} is {}, expected {} to {}", name, value.is_number() ? value.dump() : value.type_name(), least, most));
    }
    return number;
  }
};

absl::StatusOr<Span> SpanOf(const json& fields, const ReplicaProfile& profile) {
  if (!fields.is_array() || fields.size() != kSpanFields) {
    return absl::InvalidArgumentError("expected [kind, id, worker, step, start, end]");
  }
  IntegerReader read;
  Span span;
  span.kind = static_cast<SpanKind>(read.Get(fields[0], "kind", 0, kSpanKinds - 1));
  TY_RETURN_IF_ERROR(read.status);
  const auto last_of = [](size_t size) { return static_cast<int64_t>(size) - 1; };
  if (span.kind == SpanKind::kNode) {
    span.id = static_cast<int32_t>(read.Get(fields[1], "operator", 0, last_of(profile.operators.size())));
  } else if (span.kind == SpanKind::kStage) {
    span.id = static_cast<int32_t>(read.Get(fields[1], "stage", 0, last_of(profile.stages.size())));
  } else if (IsOfTensor(span.kind)) {
    span.id = static_cast<int32_t>(read.Get(fields[1], "tensor", 0, last_of(profile.tensors.size())));
  }
  span.worker = static_cast<int32_t>(read.Get(fields[2], "worker", -1, INT32_MAX));
  span.step = read.Get(fields[3], "step", 0, kMostCount);
  span.start = read.Get(fields[4], "start", 0, kLastNano);
  span.end = read.Get(fields[5], "end", span.start, span.start + kLongestSpan);
  TY_RETURN_IF_ERROR(read.status);
  return span;
}

absl::StatusOr<ReplicaProfile> ProfileOf(const json& object) {
  IntegerReader read;
  ReplicaProfile profile;
  profile.role = object.at("role").get<std::string>();
  profile.index = static_cast<int>(read.Get(object.at("index"), "index", 0, INT32_MAX));
  profile.rank = static_cast<int>(read.Get(object.at("rank"), "rank", -1, INT32_MAX));
  profile.steps.begin = read.Get(object.at("steps").at(0), "steps[0]", 0, kMostCount);
  profile.steps.end = read.Get(object.at("steps").at(1), "steps[1]", profile.steps.begin, kMostCount);
  profile.dropped = read.Get(object.at("dropped"), "dropped", 0, kMostCount);
  for (const json& node : object.at("operators")) {
    profile.operators.push_back({.name = node.at("name").get<std::string>(),
                                 .kind = node.at("kind").get<std::string>(),
                                 .flops = read.Get(node.at("flops"), "flops", 0, kMostCount),
                                 .bytes = read.Get(node.at("bytes"), "bytes", 0, kMostCount),
                                 .device = static_cast<int>(read.Get(node.at("device"), "device", 0, kLastDevice))});
  }
  profile.tensors = object.at("tensors").get<std::vector<std::string>>();
  profile.stages = object.at("stages").get<std::vector<std::string>>();
  TY_RETURN_IF_ERROR(read.status);
  const json& spans = object.at("spans");
  if (spans.size() > SpanLog::kMostSpans) {
    return absl::InvalidArgumentError(fmt::format("found {} spans, expected at most {}", spans.size(), SpanLog::kMostSpans));
  }
  for (const json& fields : spans) {
    absl::StatusOr<Span> span = SpanOf(fields, profile);
    if (!span.ok()) return WithContext(span.status(), fmt::format("spans[{}]", profile.spans.size()));
    profile.spans.push_back(*span);
  }
  return profile;
}

}  // namespace

int ReplicaProfile::devices() const {
  int last = 0;
  for (const OperatorInfo& node : operators) last = std::max(last, node.device);
  return last + 1;
}

std::string ReplicaProfileJson(const ReplicaProfile& profile) {
  nlohmann::ordered_json object = {{"role", profile.role},
                                   {"index", profile.index},
                                   {"rank", profile.rank},
                                   {"steps", {profile.steps.begin, profile.steps.end}},
                                   {"dropped", profile.dropped}};
  object["operators"] = json::array();
  for (const OperatorInfo& node : profile.operators) {
    object["operators"].push_back(
        {{"name", node.name}, {"kind", node.kind}, {"flops", node.flops}, {"bytes", node.bytes}, {"device", node.device}});
  }
  object["tensors"] = profile.tensors;
  object["stages"] = profile.stages;
  object["spans"] = json::array();
  for (const Span& span : profile.spans) {
    object["spans"].push_back({static_cast<int>(span.kind), span.id, span.worker, span.step, span.start, span.end});
  }
  return object.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
}

absl::StatusOr<ReplicaProfile> ParseReplicaProfile(std::string_view text, std::string_view name) {
  const json object = ParseJson(text);
  if (object.is_discarded()) {
    return absl::InvalidArgumentError(fmt::format("{} is not a replica's profile: no JSON of at most {} levels", name, kMostJsonLevels));
  }
  try {
    absl::StatusOr<ReplicaProfile> profile = ProfileOf(object);
    if (!profile.ok()) return WithContext(profile.status(), fmt::format("{} is not a replica's profile", name));
    return profile;
  } catch (const json::exception& error) {
    return absl::InvalidArgumentError(fmt::format("{} is not a replica's profile: {}", name, error.what()));
  }
}

std::string ProfileFolder(const std::string& dir) { return dir + "/profiles"; }

absl::Status WriteReplicaProfile(const std::string& dir, const ReplicaProfile& profile) {
  TY_RETURN_IF_ERROR(MakeDirectories(ProfileFolder(dir)));
  return TellIfMayPass(ReplaceFile(fmt::format("{}/{}.json", ProfileFolder(dir), profile.name()), ReplicaProfileJson(profile)),
                       "the profile of this replica");
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
