#include "trainer/job/replica_identity.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "trainer/base/file.h"
#include "trainer/base/status_macros.h"
#include "trainer/config/field_errors.h"
#include "trainer/config/field_reader.h"
#include "trainer/config/job_config_text.h"

namespace trainyard::engine {
namespace {

using nlohmann::json;

constexpr std::array<std::pair<std::string_view, Role>, 4> kRoles{
    {{"chief", Role::kChief}, {"worker", Role::kWorker}, {"ps", Role::kPs}, {"evaluator", Role::kEvaluator}}};
constexpr size_t kMaxHosts = 8192;
constexpr int64_t kMaxKeyFileBytes = 1024;
constexpr int64_t kMaxPemBytes = 64 << 10;

// A value and its source, for errors: "--task_index" or "TRAINYARD_INDEX".
struct Given {
  std::string value;
  std::string origin;
};

void CheckHost(std::string_view host, std::string_view origin, FieldErrors& errors) {
  const size_t colon = host.rfind(':');
  int port = 0;
  bool good = colon != std::string_view::npos && colon > 0 && host.size() <= 300;
  if (good) {
    const std::string_view digits = host.substr(colon + 1);
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), port);
    good = error == std::errc() && end == digits.data() + digits.size() && port >= 1 && port <= 65535;
  }
  if (!good) errors.Add(origin, fmt::format("found {}, expected host:port", Found(json(std::string(host)))));
}

// "a:1,b:2"; "" has no hosts. Blanks and line ends around a host do not count.
std::vector<std::string> SplitHosts(const Given& given, FieldErrors& errors) {
  std::vector<std::string> hosts;
  const auto trim = [](std::string_view text) {
    while (!text.empty() && std::isspace(static_cast<unsigned char>(text.front())) != 0) text.remove_prefix(1);
    while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back())) != 0) text.remove_suffix(1);
    return text;
  };
  std::string_view rest = trim(given.value);
  while (!rest.empty()) {
    const size_t comma = std::min(rest.find(','), rest.size());
    hosts.emplace_back(trim(rest.substr(0, comma)));
    CheckHost(hosts.back(), given.origin, errors);
    if (comma + 1 == rest.size()) errors.Add(given.origin, "found a comma at the end, expected host:port behind it");
    rest.remove_prefix(std::min(comma + 1, rest.size()));
  }
  if (hosts.size() > kMaxHosts) errors.Add(given.origin, fmt::format("found {} hosts, at most {} are possible", hosts.size(), kMaxHosts));
  return hosts;
}

bool Exists(const std::filesystem::path& path) {
  std::error_code error;
  return std::filesystem::exists(path, error);
}

std::vector<std::string> HostsOf(FieldReader& fields, std::string_view name, FieldErrors& errors) {
  std::vector<std::string> hosts = fields.TextList(name);
  for (const std::string& host : hosts) CheckHost(host, fields.PathOf(name), errors);
  return hosts;
}

// The folder's host lists: cluster.json, or without one ps_hosts and worker_hosts.
absl::Status ReadHostLists(const std::filesystem::path& folder, ReplicaIdentity& identity) {
  FieldErrors errors;
  const std::filesystem::path cluster = folder / "cluster.json";
  if (Exists(cluster)) {
    TY_ASSIGN_OR_RETURN(const std::string text, ReadFile(cluster.string(), kMaxJobBytes));
    TY_ASSIGN_OR_RETURN(const JobText json_text, ReadJson(text, cluster.string()));
    FieldReader fields(json_text.value, "", errors);
    identity.epoch = fields.Integer("epoch", {.min = 0}, 0);
    identity.evaluators = static_cast<int>(fields.Integer("evaluators", {.min = 0, .max = 1}, 0));
    identity.ps_hosts = HostsOf(fields, "ps", errors);
    identity.worker_hosts = HostsOf(fields, "worker", errors);
    identity.chief_host = fields.Text("chief", "");
    // Without a chief of its own the list names worker 0 as the chief.
    if (!identity.worker_hosts.empty() && identity.chief_host == identity.worker_hosts[0]) identity.chief_host.clear();
    if (!identity.chief_host.empty()) CheckHost(identity.chief_host, "chief", errors);
    return errors.ToStatus(cluster.string());
  }
  for (const auto& [name, hosts] : {std::pair{"ps_hosts", &identity.ps_hosts}, std::pair{"worker_hosts", &identity.worker_hosts}}) {
    if (!Exists(folder / name)) continue;
    TY_ASSIGN_OR_RETURN(const std::string text, ReadFile((folder / name).string(), kMaxJobBytes));
    *hosts = SplitHosts({.value = text, .origin = (folder / name).string()}, errors);
  }
  return errors.ToStatus(folder.string());
}

std::optional<Given> Choose(const std::optional<std::string>& flag, const char* flag_name, const char* variable,
                            const Environment& environment) {
  if (flag.has_value()) return Given{.value = *flag, .origin = flag_name};
  if (const char* value = environment(variable)) return Given{.value = value, .origin = variable};
  return std::nullopt;
}

void ReadRole(const Given& given, ReplicaIdentity& identity, FieldErrors& errors) {
  for (const auto& [name, role] : kRoles) {
    if (given.value != name) continue;
    identity.role = role;
    return;
  }
  errors.Add(given.origin, fmt::format("found {}, expected one of chief, worker, ps, evaluator", Found(json(given.value))));
}

void ReadIndex(const Given& given, ReplicaIdentity& identity, FieldErrors& errors) {
  const auto [end, error] = std::from_chars(given.value.data(), given.value.data() + given.value.size(), identity.index);
  if (error == std::errc() && end == given.value.data() + given.value.size() && identity.index >= 0) return;
  identity.index = 0;
  errors.Add(given.origin, fmt::format("found {}, expected a whole number >= 0", Found(json(given.value))));
}

// The replica must be in the list of its role, unless there are no lists at all (one process
// alone).
void CheckPlace(const ReplicaIdentity& identity, std::string_view origin, FieldErrors& errors) {
  const auto check = [&](size_t count, std::string_view list) {
    if (static_cast<size_t>(identity.index) >= count) {
      errors.Add(origin, fmt::format("found {} {}, but {} has {} host{}", RoleName(identity.role), identity.index, list, count,
                                     count == 1 ? "" : "s"));
    }
  };
  switch (identity.role) {
    case Role::kPs:
      return check(identity.ps_hosts.size(), "ps_hosts");
    case Role::kWorker:
      return check(identity.worker_hosts.empty() && identity.ps_hosts.empty() ? 1 : identity.worker_hosts.size(), "worker_hosts");
    case Role::kChief:
    case Role::kEvaluator:
      return check(1, "the job");
  }
}

// The file that the flag names, which must be there; else the config folder's, which need not.
absl::Status ReadKey(const std::optional<std::string>& flag, const char* folder, ReplicaIdentity& identity) {
  std::string path = flag.value_or("");
  if (!flag.has_value()) {
    if (folder == nullptr) return absl::OkStatus();
    path = (std::filesystem::path(folder) / "key").string();
    if (!Exists(path)) return absl::OkStatus();
  }
  TY_ASSIGN_OR_RETURN(const std::string text, ReadFile(path, kMaxKeyFileBytes));
  TY_ASSIGN_OR_RETURN(identity.key, JobKey::Parse(text, path));
  identity.key_path = path;
  return absl::OkStatus();
}

// The config folder's `tls`, which need not be there; but if it is, then whole.
absl::Status ReadTls(const char* folder, const Environment& environment, ReplicaIdentity& identity) {
  if (folder == nullptr) return absl::OkStatus();
  const std::filesystem::path place = std::filesystem::path(folder) / "tls";
  if (!Exists(place)) return absl::OkStatus();
  const char* const uid = environment("TRAINYARD_JOB_UID");
  if (uid == nullptr) {
    return absl::InvalidArgumentError(
        fmt::format("'{}' is there but TRAINYARD_JOB_UID is not set, expected the job's uid, which its certificate names", place.string()));
  }
  TlsFiles files{.name = fmt::format("{}.trainyard.dev", uid)};
  for (const auto& [name, text] :
       {std::pair{"ca.crt", &files.authority}, std::pair{"tls.crt", &files.certificate}, std::pair{"tls.key", &files.key}}) {
    TY_ASSIGN_OR_RETURN(*text, ReadFile((place / name).string(), kMaxPemBytes));
  }
  identity.tls = std::move(files);
  return absl::OkStatus();
}

std::string HostName() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "localhost";
}

}  // namespace

std::string_view RoleName(Role role) {
  for (const auto& [name, value] : kRoles) {
    if (value == role) return name;
  }
  return "";
}

std::string TrainerName(int rank, bool own_chief) {
  return own_chief && rank == 0 ? "chief-0" : fmt::format("worker-{}", own_chief ? rank - 1 : rank);
}

absl::StatusOr<ReplicaIdentity> ReadReplicaIdentity(const ReplicaFlags& flags, const Environment& environment) {
  ReplicaIdentity identity;
  FieldErrors errors;
  const char* folder = environment("TRAINYARD_CONFIG_DIR");
  if (folder != nullptr && !Exists(folder)) {
    return absl::NotFoundError(fmt::format(
        "TRAINYARD_CONFIG_DIR: there is no folder '{}', expected one with training.json and the host lists; was it removed?", folder));
  }
  if (folder != nullptr) TY_RETURN_IF_ERROR(ReadHostLists(folder, identity));
  TY_RETURN_IF_ERROR(ReadKey(flags.key, folder, identity));
  TY_RETURN_IF_ERROR(ReadTls(folder, environment, identity));
  if (flags.ps_hosts.has_value()) identity.ps_hosts = SplitHosts({.value = *flags.ps_hosts, .origin = "--ps_hosts"}, errors);
  if (flags.worker_hosts.has_value()) {
    identity.worker_hosts = SplitHosts({.value = *flags.worker_hosts, .origin = "--worker_hosts"}, errors);
    identity.chief_host.clear();
  }
  if (const auto role = Choose(flags.job_name, "--job_name", "TRAINYARD_ROLE", environment)) ReadRole(*role, identity, errors);
  std::optional<std::string> index_flag;
  if (flags.task_index.has_value()) index_flag = fmt::format("{}", *flags.task_index);
  std::string index_origin = "--task_index";
  if (const auto index = Choose(index_flag, "--task_index", "TRAINYARD_INDEX", environment)) {
    index_origin = index->origin;
    ReadIndex(*index, identity, errors);
  }
  if (errors.empty()) CheckPlace(identity, index_origin, errors);
  if (flags.config.has_value()) {
    identity.config_path = *flags.config;
  } else if (folder != nullptr) {
    identity.config_path = (std::filesystem::path(folder) / "training.json").string();
  } else {
    errors.Add("--config",
               "missing: give a TrainingJob file or a training.json, or set TRAINYARD_CONFIG_DIR to the folder with training.json");
  }
  TY_RETURN_IF_ERROR(errors.ToStatus("replica"));
  if (const char* name = environment("TRAINYARD_JOB_NAME")) identity.job_name = name;
  if (const char* uid = environment("TRAINYARD_JOB_UID")) identity.job_uid = uid;
  const char* const node = environment("TRAINYARD_NODE");
  identity.node = node != nullptr ? node : HostName();
  return identity;
}

bool ReplicaIdentity::on_one_machine() const {
  const auto is_loopback = [](const std::string& host) {
    return host.starts_with("127.") || host.starts_with("localhost:") || host.starts_with("[::1]:");
  };
  return std::ranges::all_of(ps_hosts, is_loopback) && std::ranges::all_of(worker_hosts, is_loopback) &&
         (chief_host.empty() || is_loopback(chief_host));
}

Environment ProcessEnvironment() {
  return [](const char* name) { return std::getenv(name); };
}

}  // namespace trainyard::engine
