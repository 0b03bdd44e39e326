#include "trainer/collectives/join_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "trainer/base/parse_json.h"
#include "trainer/base/status_macros.h"

namespace trainyard::engine {
namespace {

using nlohmann::json;

constexpr size_t kMostText = 64 << 10;
constexpr size_t kMostShown = 300;

absl::Status Wrong(std::string_view field, std::string_view expected) {
  return absl::InvalidArgumentError(fmt::format("join: field '{}' is missing or not {}", field, expected));
}

}  // namespace

std::string ToJson(const JoinRequest& request) {
  json agreement = json::array();
  for (const auto& [name, value] : request.agreement) agreement.push_back(json::array({name, value}));
  return json{{"agreement", std::move(agreement)},         {"furthest", request.furthest},
              {"origin", OriginJson(request.origin)},      {"because", request.because.substr(0, kMostShown)},
              {"fromCheckpoint", request.from_checkpoint}, {"node", request.node},
              {"deviceKind", request.device_kind}}
      .dump(-1, ' ', false, json::error_handler_t::replace);
}

absl::StatusOr<JoinRequest> ParseJoinRequest(std::string_view text) {
  if (text.size() > kMostText) {
    return absl::InvalidArgumentError(fmt::format("join: {} bytes of JSON, expected at most {}", text.size(), kMostText));
  }
  const json object = ParseJson(text);
  if (!object.is_object()) {
    return absl::InvalidArgumentError(
        fmt::format("join: not a JSON object of at most {} levels but {} bytes of something else", kMostJsonLevels, text.size()));
  }
  JoinRequest request;
  const auto agreement = object.find("agreement");
  const auto furthest = object.find("furthest");
  const auto because = object.find("because");
  const auto from_checkpoint = object.find("fromCheckpoint");
  if (agreement == object.end() || !agreement->is_array()) return Wrong("agreement", "a list");
  for (const json& entry : *agreement) {
    if (!entry.is_array() || entry.size() != 2 || !entry[0].is_string() || !entry[1].is_string()) {
      return Wrong("agreement", "a list of pairs of texts");
    }
    request.agreement.emplace_back(entry[0].get<std::string>(), entry[1].get<std::string>());
  }
  if (furthest == object.end() || !furthest->is_number_integer()) return Wrong("furthest", "an integer");
  request.furthest = furthest->get<int64_t>();
  const auto origin = object.find("origin");
  const absl::StatusOr<InputOrigin> read = ParseOrigin(origin != object.end() ? *origin : json());
  if (!read.ok()) return WithContext(read.status(), "join");
  request.origin = *read;
  if (because == object.end() || !because->is_string()) return Wrong("because", "a text");
  request.because = because->get<std::string>().substr(0, kMostShown);
  if (from_checkpoint == object.end() || !from_checkpoint->is_boolean()) return Wrong("fromCheckpoint", "true or false");
  request.from_checkpoint = from_checkpoint->get<bool>();
  const auto node = object.find("node");
  if (node == object.end() || !node->is_string()) return Wrong("node", "a text");
  request.node = node->get<std::string>();
  const auto device_kind = object.find("deviceKind");
  if (device_kind == object.end() || !device_kind->is_string()) return Wrong("deviceKind", "a text");
  request.device_kind = device_kind->get<std::string>();
  return request;
}

absl::Status CheckAgreement(const GroupAgreement& ours, int our_rank, const GroupAgreement& theirs, int their_rank) {
  const auto differ = [&](std::string_view what, std::string_view here, std::string_view there) {
    return absl::FailedPreconditionError(fmt::format("{} differs: rank {} has {}, rank {} has {}; start all ranks with the same job file",
                                                     what, our_rank, here.substr(0, kMostShown), their_rank, there.substr(0, kMostShown)));
  };
  const std::pair<std::string, std::string> nothing("", "nothing");
  for (size_t i = 0; i < std::max(ours.size(), theirs.size()); ++i) {
    const auto& [name, here] = i < ours.size() ? ours[i] : nothing;
    const auto& [their_name, there] = i < theirs.size() ? theirs[i] : nothing;
    if (name != their_name) {
      return differ("what ranks agree on", name.empty() ? "no more" : name, their_name.empty() ? "no more" : their_name);
    }
    if (here != there) return differ(name, here, there);
  }
  return absl::OkStatus();
}

}  // namespace trainyard::engine
