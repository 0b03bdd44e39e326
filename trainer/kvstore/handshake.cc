#include "trainer/kvstore/handshake.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "trainer/base/parse_json.h"
#include "trainer/base/status_macros.h"

namespace trainyard::engine {
namespace {

using nlohmann::json;

absl::Status Differ(std::string_view what, std::string_view ours, std::string_view our_name, std::string_view theirs,
                    std::string_view their_name) {
  return absl::FailedPreconditionError(
      fmt::format("{} differs: {} has {}, {} has {}; start both with the same job file", what, our_name, ours, their_name, theirs));
}

absl::Status Missing(std::string_view field, std::string_view expected) {
  return absl::InvalidArgumentError(fmt::format("handshake: field '{}' is missing or not {}", field, expected));
}

absl::Status Read(const json& object, const char* field, int64_t& out) {
  const auto found = object.find(field);
  if (found == object.end() || !found->is_number_integer()) return Missing(field, "an integer");
  out = found->get<int64_t>();
  return absl::OkStatus();
}

absl::Status Read(const json& object, const char* field, int& out) {
  int64_t value = 0;
  TY_RETURN_IF_ERROR(Read(object, field, value));
  if (value < -1 || value > INT32_MAX) return Missing(field, "a small integer");
  out = static_cast<int>(value);
  return absl::OkStatus();
}

absl::Status Read(const json& object, const char* field, bool& out) {
  const auto found = object.find(field);
  if (found == object.end() || !found->is_boolean()) return Missing(field, "true or false");
  out = found->get<bool>();
  return absl::OkStatus();
}

absl::Status Read(const json& object, const char* field, std::string& out) {
  const auto found = object.find(field);
  if (found == object.end() || !found->is_string()) return Missing(field, "a text");
  out = found->get<std::string>();
  return absl::OkStatus();
}

absl::Status Read(const json& object, const char* field, InputOrigin& out) {
  const auto found = object.find(field);
  absl::StatusOr<InputOrigin> origin = ParseOrigin(found == object.end() ? json() : *found);
  if (!origin.ok()) return Missing(field, "three whole numbers from 0 on");
  out = *origin;
  return absl::OkStatus();
}

absl::Status Read(const json& object, const char* field, std::vector<std::string>& out) {
  const auto found = object.find(field);
  if (found == object.end() || !found->is_array()) return Missing(field, "a list of words");
  for (const json& item : *found) {
    if (!item.is_string()) return Missing(field, "a list of words");
    out.push_back(item.get<std::string>());
  }
  return absl::OkStatus();
}

absl::Status Read(const json& object, const char* field, JobSettings& out) {
  const auto found = object.find(field);
  const auto is_pair = [](const json& item) { return item.is_array() && item.size() == 2 && item[0].is_string() && item[1].is_string(); };
  if (found == object.end() || !found->is_array() || !std::ranges::all_of(*found, is_pair))
    return Missing(field, "a list of pairs of texts");
  for (const json& item : *found) out.emplace_back(item[0].get<std::string>(), item[1].get<std::string>());
  return absl::OkStatus();
}

absl::Status Read(const json& object, const char* field, Compression& out) {
  const auto found = object.find(field);
  for (const Compression compression : {Compression::kNone, Compression::kBfloat16}) {
    if (found == object.end() || *found != CompressionName(compression)) continue;
    out = compression;
    return absl::OkStatus();
  }
  return Missing(field, "none or bfloat16");
}

constexpr size_t kMostTensorText = 32 << 10;  // a first message has 64 KiB; the placement's hash tells the rest of the tensors apart

constexpr size_t kMostText = 64 << 10;

absl::StatusOr<json> Parse(std::string_view text) {
  if (text.size() > kMostText) {
    return absl::InvalidArgumentError(fmt::format("handshake: {} bytes of JSON, expected at most {}", text.size(), kMostText));
  }
  json object = ParseJson(text);
  if (!object.is_object()) {
    return absl::InvalidArgumentError(
        fmt::format("handshake: not a JSON object of at most {} levels but {} bytes of something else", kMostJsonLevels, text.size()));
  }
  return object;
}

}  // namespace

KvAgreement MakeAgreement(std::span<const ParameterSpec> specs) {
  KvAgreement agreement;
  size_t bytes = 0;
  for (const ParameterSpec& spec : specs) {
    std::string tensor = fmt::format("{} F32 {}", spec.name, spec.shape.ToString());
    bytes += tensor.size();
    if (bytes > kMostTensorText) {
      agreement.tensors.push_back(fmt::format("and {} more", specs.size() - agreement.tensors.size()));
      break;
    }
    agreement.tensors.push_back(std::move(tensor));
  }
  return agreement;
}

std::string ToJson(const KvHello& hello) {
  const KvAgreement& agreement = hello.agreement;
  return json{{"mode", KvModeName(agreement.mode)},
              {"workers", agreement.workers},
              {"devices", agreement.devices},
              {"compression", CompressionName(agreement.compression)},
              {"servers", agreement.servers},
              {"server", agreement.server},
              {"placement", fmt::format("{:016x}", agreement.placement)},
              {"slots", agreement.slots},
              {"tensors", agreement.tensors},
              {"vocabulary", hello.vocabulary},
              {"settings", hello.settings},
              {"end", hello.end},
              {"chief", hello.chief},
              {"left", hello.left}}
      .dump(-1, ' ', false, json::error_handler_t::replace);
}

std::string ToJson(const KvServerState& state) {
  return json{{"workerStep", state.worker_step},
              {"workerKnown", state.worker_known},
              {"training", state.training},
              {"endStep", state.end_step},
              {"planned", state.planned},
              {"order", state.order},
              {"line", state.line},
              {"lineStep", state.line_step},
              {"origin", OriginJson(state.origin)},
              {"lowest", state.lowest},
              {"highest", state.highest},
              {"released", state.released},
              {"torn", state.torn}}
      .dump(-1, ' ', false, json::error_handler_t::replace);
}

std::string ToJson(const KvLine& line) {
  return json{{"line", line.line}, {"lineStep", line.step}, {"origin", OriginJson(line.origin)}}.dump();
}

absl::StatusOr<KvLine> ParseLine(std::string_view text) {
  TY_ASSIGN_OR_RETURN(const json object, Parse(text));
  KvLine line;
  TY_RETURN_IF_ERROR(Read(object, "line", line.line));
  TY_RETURN_IF_ERROR(Read(object, "lineStep", line.step));
  TY_RETURN_IF_ERROR(Read(object, "origin", line.origin));
  if (line.line <= 0) return Missing("line", "a number above 0");
  if (line.step < 0) return Missing("lineStep", "a number from 0");
  return line;
}

absl::StatusOr<KvHello> ParseHello(std::string_view text) {
  TY_ASSIGN_OR_RETURN(const json object, Parse(text));
  KvHello hello;
  KvAgreement& agreement = hello.agreement;
  const auto mode = object.find("mode");
  const auto placement = object.find("placement");
  if (mode == object.end() || (*mode != "sync" && *mode != "async")) return Missing("mode", "sync or async");
  if (placement == object.end() || !placement->is_string()) return Missing("placement", "16 hex digits");
  agreement.mode = *mode == "sync" ? KvMode::kSync : KvMode::kAsync;
  agreement.placement = std::strtoull(placement->get<std::string>().c_str(), nullptr, 16);
  TY_RETURN_IF_ERROR(Read(object, "workers", agreement.workers));
  TY_RETURN_IF_ERROR(Read(object, "devices", agreement.devices));
  TY_RETURN_IF_ERROR(Read(object, "compression", agreement.compression));
  TY_RETURN_IF_ERROR(Read(object, "servers", agreement.servers));
  TY_RETURN_IF_ERROR(Read(object, "server", agreement.server));
  TY_RETURN_IF_ERROR(Read(object, "slots", agreement.slots));
  TY_RETURN_IF_ERROR(Read(object, "tensors", agreement.tensors));
  TY_RETURN_IF_ERROR(Read(object, "vocabulary", hello.vocabulary));
  TY_RETURN_IF_ERROR(Read(object, "settings", hello.settings));
  TY_RETURN_IF_ERROR(Read(object, "end", hello.end));
  TY_RETURN_IF_ERROR(Read(object, "chief", hello.chief));
  TY_RETURN_IF_ERROR(Read(object, "left", hello.left));
  return hello;
}

absl::StatusOr<KvServerState> ParseServerState(std::string_view text) {
  TY_ASSIGN_OR_RETURN(const json object, Parse(text));
  KvServerState state;
  TY_RETURN_IF_ERROR(Read(object, "workerStep", state.worker_step));
  TY_RETURN_IF_ERROR(Read(object, "workerKnown", state.worker_known));
  TY_RETURN_IF_ERROR(Read(object, "training", state.training));
  TY_RETURN_IF_ERROR(Read(object, "endStep", state.end_step));
  TY_RETURN_IF_ERROR(Read(object, "planned", state.planned));
  TY_RETURN_IF_ERROR(Read(object, "order", state.order));
  TY_RETURN_IF_ERROR(Read(object, "line", state.line));
  TY_RETURN_IF_ERROR(Read(object, "lineStep", state.line_step));
  TY_RETURN_IF_ERROR(Read(object, "origin", state.origin));
  TY_RETURN_IF_ERROR(Read(object, "lowest", state.lowest));
  TY_RETURN_IF_ERROR(Read(object, "highest", state.highest));
  TY_RETURN_IF_ERROR(Read(object, "released", state.released));
  TY_RETURN_IF_ERROR(Read(object, "torn", state.torn));
  return state;
}

absl::Status CheckAgreement(const KvAgreement& ours, std::string_view our_name, const KvAgreement& theirs, std::string_view their_name) {
  const auto compare = [&](std::string_view what, const std::string& a, const std::string& b) {
    return a == b ? absl::OkStatus() : Differ(what, a, our_name, b, their_name);
  };
  TY_RETURN_IF_ERROR(compare("the strategy's mode", std::string(KvModeName(ours.mode)), std::string(KvModeName(theirs.mode))));
  if (ours.mode == KvMode::kSync) {  // async workers may be scaled while they run
    TY_RETURN_IF_ERROR(compare("the number of workers", fmt::to_string(ours.workers), fmt::to_string(theirs.workers)));
  }
  TY_RETURN_IF_ERROR(compare("the number of devices of a worker", fmt::to_string(ours.devices), fmt::to_string(theirs.devices)));
  TY_RETURN_IF_ERROR(compare("the strategy's compression", std::string(CompressionName(ours.compression)),
                             std::string(CompressionName(theirs.compression))));
  TY_RETURN_IF_ERROR(compare("the number of servers", fmt::to_string(ours.servers), fmt::to_string(theirs.servers)));
  TY_RETURN_IF_ERROR(compare("the index of this server", fmt::to_string(ours.server), fmt::to_string(theirs.server)));
  TY_RETURN_IF_ERROR(compare("the number of tensors", fmt::to_string(ours.tensors.size()), fmt::to_string(theirs.tensors.size())));
  for (size_t i = 0; i < ours.tensors.size(); ++i) {
    TY_RETURN_IF_ERROR(compare(fmt::format("tensor {} of the model", i), "'" + ours.tensors[i] + "'", "'" + theirs.tensors[i] + "'"));
  }
  TY_RETURN_IF_ERROR(compare("the optimizer's slots", fmt::format("[{}]", fmt::join(ours.slots, ", ")),
                             fmt::format("[{}]", fmt::join(theirs.slots, ", "))));
  return compare("the placement", fmt::format("{:016x}", ours.placement), fmt::format("{:016x}", theirs.placement));
}

}  // namespace trainyard::engine
