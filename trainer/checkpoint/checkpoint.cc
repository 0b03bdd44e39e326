#include "trainer/checkpoint/checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <concepts>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <utility>

#include "trainer/base/file.h"
#include "trainer/base/log.h"
#include "trainer/base/parse_json.h"
#include "trainer/base/sha256.h"
#include "trainer/base/staged_folder.h"
#include "trainer/base/status_macros.h"
#include "trainer/base/whole_number.h"

namespace trainyard::engine {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::string_view kFormat = "trainyard-checkpoint";
constexpr int kVersion = 1;
constexpr int kReadAttempts = 5;  // of a checkpoint that another process replaces meanwhile
constexpr std::string_view kManifest = "manifest.json";
constexpr std::string_view kDescription = "model.json";
constexpr std::string_view kPrefix = "step-";
constexpr std::string_view kBest = "best";
constexpr std::string_view kShardEnd = ".safetensors";
constexpr int64_t kMaxManifestBytes = 16 << 20;
constexpr int64_t kMaxShardBytes = int64_t{1} << 40;
constexpr int64_t kMaxDescriptionBytes = 16 << 20;

std::string Sha256Of(std::string_view bytes) {
  Sha256 sha256;
  sha256.Update(bytes);
  return sha256.HexDigest();
}

// A field of a manifest, or DataLoss that names it.
template <typename T>
absl::StatusOr<T> Field(const json& object, std::string_view name, std::string_view path) {
  try {
    const json& value = object.at(std::string(name));
    if constexpr (std::integral<T>) return GetWhole<T>(value);
    return value.get<T>();
  } catch (const json::exception&) {
    return absl::DataLossError(fmt::format("{} has no usable field '{}'", path, name));
  }
}

json ManifestOf(const CheckpointInfo& info) {
  // The fingerprint is text: JSON numbers above 2^53 are not safe in other readers.
  return {{"format", kFormat},
          {"version", kVersion},
          {"step", info.step},
          {"epoch", info.position.epoch},
          {"offset", info.position.offset},
          {"seed", info.seed},
          {"fingerprint", fmt::format("{:016x}", info.fingerprint)},
          {"model", info.model},
          {"strategy", info.strategy},
          {"state", info.state},
          {"shards", json::array()}};
}

absl::StatusOr<CheckpointInfo> InfoOf(const json& manifest, std::string_view path) {
  CheckpointInfo info;
  TY_ASSIGN_OR_RETURN(info.step, Field<int64_t>(manifest, "step", path));
  TY_ASSIGN_OR_RETURN(info.position.epoch, Field<int64_t>(manifest, "epoch", path));
  TY_ASSIGN_OR_RETURN(info.position.offset, Field<int64_t>(manifest, "offset", path));
  if (info.step < 0 || info.position.epoch < 0 || info.position.offset < 0) {
    return absl::DataLossError(fmt::format("{} has a negative step, epoch or offset", path));
  }
  TY_ASSIGN_OR_RETURN(info.seed, Field<uint64_t>(manifest, "seed", path));
  TY_ASSIGN_OR_RETURN(info.model, Field<std::string>(manifest, "model", path));
  TY_ASSIGN_OR_RETURN(info.strategy, Field<std::string>(manifest, "strategy", path));
  TY_ASSIGN_OR_RETURN(info.state, (Field<std::map<std::string, std::string>>(manifest, "state", path)));
  TY_ASSIGN_OR_RETURN(std::string fingerprint, Field<std::string>(manifest, "fingerprint", path));
  const auto [end, error] = std::from_chars(fingerprint.data(), fingerprint.data() + fingerprint.size(), info.fingerprint, 16);
  if (error != std::errc() || end != fingerprint.data() + fingerprint.size()) {
    return absl::DataLossError(fmt::format("{} has no usable field 'fingerprint'", path));
  }
  return info;
}

absl::StatusOr<json> ParseManifest(const std::string& text, const std::string& path) {
  json manifest = ParseJson(text);
  if (!manifest.is_object()) return absl::DataLossError(fmt::format("{} is not a JSON object", path));
  TY_ASSIGN_OR_RETURN(std::string format, Field<std::string>(manifest, "format", path));
  TY_ASSIGN_OR_RETURN(int version, Field<int>(manifest, "version", path));
  if (format != kFormat || version != kVersion) {
    return absl::DataLossError(
        fmt::format("{} is of format '{}' version {}, expected '{}' version {}", path, format, version, kFormat, kVersion));
  }
  return manifest;
}

struct ListedFile {
  std::string path;
  std::string content;
};

// A file that the manifest lists, whole.
absl::StatusOr<ListedFile> ReadListed(const std::string& folder, const json& entry, std::string_view manifest_path, int64_t max_bytes) {
  TY_ASSIGN_OR_RETURN(std::string file, Field<std::string>(entry, "file", manifest_path));
  TY_ASSIGN_OR_RETURN(uint64_t bytes, Field<uint64_t>(entry, "bytes", manifest_path));
  TY_ASSIGN_OR_RETURN(std::string sha256, Field<std::string>(entry, "sha256", manifest_path));
  if (file.empty() || file.find('/') != std::string::npos || file.front() == '.') {
    return absl::DataLossError(fmt::format("{} names a file '{}' outside its folder", manifest_path, file));
  }
  std::string path = fmt::format("{}/{}", folder, file);
  TY_ASSIGN_OR_RETURN(std::string content, ReadFile(path, max_bytes));
  if (content.size() != bytes)
    return absl::DataLossError(fmt::format("{} has {} bytes, its manifest says {}", path, content.size(), bytes));
  if (std::string found = Sha256Of(content); found != sha256) {
    return absl::DataLossError(fmt::format("{} has the SHA-256 {}, its manifest says {}", path, found, sha256));
  }
  return ListedFile{.path = std::move(path), .content = std::move(content)};
}

absl::StatusOr<Safetensors> ReadShard(const std::string& folder, const json& entry, std::string_view manifest_path) {
  TY_ASSIGN_OR_RETURN(ListedFile file, ReadListed(folder, entry, manifest_path, kMaxShardBytes));
  return Safetensors::Parse(std::move(file.content), file.path);
}

std::string NameIn(const ParameterSpec& spec, std::string_view slot) {
  return slot.empty() ? spec.name : fmt::format("{}/{}", spec.name, slot);
}

absl::Status CheckFits(const Tensor& tensor, const ParameterSpec& spec, std::string_view name) {
  if (tensor.dtype == DType::kF32 && tensor.shape == spec.shape) return absl::OkStatus();
  return absl::InvalidArgumentError(fmt::format("tensor '{}' is {} {}, the model has F32 {}", name, DTypeName(tensor.dtype),
                                                tensor.shape.ToString(), spec.shape.ToString()));
}

// The step of "step-<n>", or nothing for any other name.
std::optional<int64_t> StepOf(std::string_view name) {
  if (!name.starts_with(kPrefix)) return std::nullopt;
  name.remove_prefix(kPrefix.size());
  int64_t step = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), step);
  if (error != std::errc() || end != name.data() + name.size() || step < 0) return std::nullopt;
  return step;
}

}  // namespace

namespace {

absl::Status CheckModel(const CheckpointInfo& info, std::string_view path, uint64_t fingerprint, std::string_view model) {
  if (info.fingerprint == fingerprint) return absl::OkStatus();
  return absl::FailedPreconditionError(fmt::format(
      "checkpoint {} is of model '{}' (fingerprint {:016x}), this job trains '{}' (fingerprint {:016x}); use another output folder or "
      "the model of the checkpoint",
      path, info.model, info.fingerprint, model, fingerprint));
}

// The manifest of a checkpoint.
absl::StatusOr<CheckpointInfo> ReadInfo(const std::string& folder) {
  const std::string path = fmt::format("{}/{}", folder, kManifest);
  TY_ASSIGN_OR_RETURN(const std::string text, ReadFile(path, kMaxManifestBytes));
  TY_ASSIGN_OR_RETURN(const json manifest, ParseManifest(text, path));
  return InfoOf(manifest, path);
}

}  // namespace

absl::Status CheckModel(const Checkpoint& checkpoint, uint64_t fingerprint, std::string_view model) {
  return CheckModel(checkpoint.info(), checkpoint.path(), fingerprint, model);
}

void AppendTensors(const ParameterSet& set, std::string_view slot, std::vector<NamedTensor>& tensors) {
  for (int key = 0; key < set.size(); ++key) {
    auto* values = const_cast<float*>(set.values(key).data());  // a Tensor has no const form; nothing writes through it
    tensors.push_back({NameIn(set.spec(key), slot), {DType::kF32, set.spec(key).shape, values}});
  }
}

absl::StatusOr<Checkpoint> Checkpoint::Read(const std::string& named) {
  const std::string path = StandingFolder(named);
  const std::string manifest_path = fmt::format("{}/{}", path, kManifest);
  TY_ASSIGN_OR_RETURN(const std::string text, ReadFile(manifest_path, kMaxManifestBytes));
  TY_ASSIGN_OR_RETURN(json manifest, ParseManifest(text, manifest_path));
  Checkpoint checkpoint;
  checkpoint.path_ = path;
  checkpoint.digest_ = Sha256Of(text);
  TY_ASSIGN_OR_RETURN(checkpoint.info_, InfoOf(manifest, manifest_path));
  if (manifest.contains("description")) {
    TY_ASSIGN_OR_RETURN(ListedFile file, ReadListed(path, manifest["description"], manifest_path, kMaxDescriptionBytes));
    checkpoint.info_.description = std::move(file.content);
  }
  TY_ASSIGN_OR_RETURN(json shards, Field<json>(manifest, "shards", manifest_path));
  if (!shards.is_array()) return absl::DataLossError(fmt::format("{} has no usable field 'shards'", manifest_path));
  for (const json& entry : shards) {
    TY_ASSIGN_OR_RETURN(Safetensors shard, ReadShard(path, entry, manifest_path));
    checkpoint.shards_.push_back(std::move(shard));
    const auto file = entry["file"].get<std::string>();
    checkpoint.shard_names_.push_back(file.ends_with(kShardEnd) ? file.substr(0, file.size() - kShardEnd.size()) : file);
  }
  return checkpoint;
}

std::vector<CheckpointShard> Checkpoint::Shards() const {
  std::vector<CheckpointShard> shards;
  for (size_t i = 0; i < shards_.size(); ++i) {
    shards.push_back({.name = shard_names_[i], .tensors = {shards_[i].tensors().begin(), shards_[i].tensors().end()}});
  }
  return shards;
}

const Tensor* Checkpoint::Find(std::string_view name) const {
  for (const Safetensors& shard : shards_) {
    if (const Tensor* tensor = shard.Find(name)) return tensor;
  }
  return nullptr;
}

absl::Status Checkpoint::CopyTo(ParameterSet& set, std::string_view slot) const {
  for (int key = 0; key < set.size(); ++key) {
    const std::string name = NameIn(set.spec(key), slot);
    const Tensor* tensor = Find(name);
    if (tensor == nullptr) return absl::NotFoundError(fmt::format("checkpoint {} has no tensor '{}'", path_, name));
    TY_RETURN_IF_ERROR(WithContext(CheckFits(*tensor, set.spec(key), name), fmt::format("checkpoint {}", path_)));
    std::ranges::copy(tensor->values<const float>(), set.values(key).begin());
  }
  return absl::OkStatus();
}

std::string CheckpointStore::BestPath() const { return fmt::format("{}/{}", dir_, kBest); }

std::string CheckpointStore::PathOf(int64_t step) const { return fmt::format("{}/{}{}", dir_, kPrefix, step); }

absl::StatusOr<std::string> CheckpointStore::DigestOf(const std::string& path) {
  TY_ASSIGN_OR_RETURN(const std::string text, ReadFile(fmt::format("{}/{}", StandingFolder(path), kManifest), kMaxManifestBytes));
  return Sha256Of(text);
}

absl::StatusOr<std::string> CheckpointStore::Save(const CheckpointInfo& info, std::span<const CheckpointShard> shards) {
  TY_ASSIGN_OR_RETURN(std::string path, Write(fmt::format("{}{}", kPrefix, info.step), info, shards));
  RemoveOldOnes(info.step);
  return path;
}

absl::StatusOr<std::string> CheckpointStore::SaveBest(const CheckpointInfo& info, std::span<const CheckpointShard> shards) {
  return Write(kBest, info, shards);
}

absl::StatusOr<std::string> CheckpointStore::Write(std::string_view name, const CheckpointInfo& info,
                                                   std::span<const CheckpointShard> shards) {
  std::string final_path = fmt::format("{}/{}", dir_, name);
  TY_ASSIGN_OR_RETURN(StagedFolder folder, StagedFolder::Create(final_path, *disk_));
  json manifest = ManifestOf(info);
  for (const CheckpointShard& shard : shards) {
    const std::string file = fmt::format("{}{}", shard.name, kShardEnd);
    TY_ASSIGN_OR_RETURN(const FileDigest written, WriteSafetensors(fmt::format("{}/{}", folder.path(), file), shard.tensors, {}, *disk_));
    manifest["shards"].push_back({{"file", file}, {"bytes", written.bytes}, {"sha256", written.sha256}});
  }
  if (!info.description.empty()) {
    TY_RETURN_IF_ERROR(WriteFileDurably(fmt::format("{}/{}", folder.path(), kDescription), info.description, *disk_));
    manifest["description"] = {{"file", kDescription}, {"bytes", info.description.size()}, {"sha256", Sha256Of(info.description)}};
  }
  const std::string text = manifest.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
  TY_RETURN_IF_ERROR(WriteFileDurably(fmt::format("{}/{}", folder.path(), kManifest), text, *disk_));
  TY_RETURN_IF_ERROR(folder.Replace());
  return final_path;
}

void CheckpointStore::RemoveOldOnes(int64_t newest) const {
  absl::StatusOr<std::vector<int64_t>> steps = Steps();
  if (!steps.ok()) {
    LogWarning("cannot list old checkpoints, so none is removed: {}", steps.status().ToString());
    return;
  }
  // Steps beyond the one just saved belong to a line of training that was given up (a resume from
  // an older one): they go first.
  int kept = 0;
  for (int64_t step : *steps) {
    if (step <= newest && kept++ < keep_) continue;
    const std::string path = PathOf(step);
    std::error_code error;
    fs::remove_all(path, error);
    if (error) LogWarning("cannot remove old checkpoint {}: {}", path, error.message());
  }
}

absl::StatusOr<std::vector<int64_t>> CheckpointStore::Steps() const {
  std::vector<int64_t> steps;
  std::error_code error;
  fs::directory_iterator it(dir_, error);
  if (error == std::errc::no_such_file_or_directory) return steps;
  for (const fs::directory_iterator end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (std::optional<int64_t> step = StepOf(StandingName(name))) steps.push_back(*step);
  }
  if (error) return FileError(error.value(), "list folder", dir_);
  std::ranges::sort(steps, std::greater());
  steps.erase(std::ranges::unique(steps).begin(), steps.end());  // a step that is just being replaced stands there twice
  return steps;
}

absl::StatusOr<std::optional<Checkpoint>> CheckpointStore::LoadBest(uint64_t fingerprint, std::string_view model) const {
  absl::StatusOr<Checkpoint> checkpoint = absl::NotFoundError("");
  std::string digest;
  for (int attempt = 0; attempt < kReadAttempts; ++attempt) {
    const absl::StatusOr<std::string> now = DigestOf(BestPath());
    if (absl::IsNotFound(now.status())) return std::nullopt;
    if (now.ok() && *now == digest) break;  // what was wrong with it stays wrong
    digest = now.ok() ? *now : "";
    checkpoint = Checkpoint::Read(BestPath());
    if (checkpoint.ok()) break;
  }
  TY_RETURN_IF_ERROR(checkpoint.status());
  TY_RETURN_IF_ERROR(CheckModel(*checkpoint, fingerprint, model));
  return *std::move(checkpoint);
}

absl::StatusOr<std::optional<CheckpointInfo>> CheckpointStore::BestInfo() const {
  absl::StatusOr<CheckpointInfo> info = ReadInfo(StandingFolder(BestPath()));
  if (absl::IsNotFound(info.status())) return std::nullopt;
  TY_RETURN_IF_ERROR(info.status());
  return *std::move(info);
}

absl::StatusOr<std::optional<CheckpointInfo>> CheckpointStore::NewestInfo() const {
  TY_ASSIGN_OR_RETURN(const std::vector<int64_t> steps, Steps());
  for (const int64_t step : steps) {
    if (absl::StatusOr<CheckpointInfo> info = ReadInfo(StandingFolder(PathOf(step))); info.ok()) return *std::move(info);
  }
  return std::nullopt;
}

absl::Status CheckpointStore::CheckNewest(uint64_t fingerprint, std::string_view model) const {
  TY_ASSIGN_OR_RETURN(const std::optional<CheckpointInfo> info, NewestInfo());
  return info ? CheckModel(*info, PathOf(info->step), fingerprint, model) : absl::OkStatus();
}

absl::StatusOr<NewestCheckpoint> CheckpointStore::NewestGood() const {
  TY_ASSIGN_OR_RETURN(std::vector<int64_t> steps, Steps());
  NewestCheckpoint newest;
  for (int64_t step : steps) {
    const std::string path = PathOf(step);
    absl::StatusOr<Checkpoint> checkpoint = Checkpoint::Read(path);
    if (checkpoint.ok()) {
      newest.checkpoint = *std::move(checkpoint);
      return newest;
    }
    const std::string reason(checkpoint.status().message());
    LogWarning("checkpoint {} is skipped, and an earlier one is used: {}", path, reason);
    newest.skipped.push_back({.step = step, .path = path, .reason = reason});
  }
  return newest;
}

absl::StatusOr<NewestCheckpoint> CheckpointStore::LoadNewest(uint64_t fingerprint, std::string_view model) const {
  TY_ASSIGN_OR_RETURN(NewestCheckpoint newest, NewestGood());
  if (newest.checkpoint) TY_RETURN_IF_ERROR(CheckModel(*newest.checkpoint, fingerprint, model));
  return newest;
}

namespace {

// "'a', 'b' and 3 more", of the names of a file.
std::string NameSome(std::span<const std::string> names) {
  constexpr size_t kNamed = 20;
  const auto named = names.first(std::min(names.size(), kNamed));
  const std::string more = names.size() > kNamed ? fmt::format(" and {} more", names.size() - kNamed) : "";
  return fmt::format("'{}'{}", fmt::join(named, "', '"), more);
}

}  // namespace

absl::Status InitFrom(const std::string& path, ParameterSet& parameters) {
  absl::StatusOr<Safetensors> file = Safetensors::Read(path);
  if (!file.ok()) return WithContext(file.status(), "spec.training.initFrom");
  std::vector<std::string> unknown;
  for (const NamedTensor& tensor : file->tensors()) {
    if (parameters.Find(tensor.name) < 0) unknown.push_back(tensor.name);
  }
  std::string mistakes;
  for (int key = 0; key < parameters.size(); ++key) {
    const ParameterSpec& spec = parameters.spec(key);
    const Tensor* tensor = file->Find(spec.name);
    absl::Status fits =
        tensor == nullptr ? absl::NotFoundError(fmt::format("tensor '{}' is missing", spec.name)) : CheckFits(*tensor, spec, spec.name);
    if (!fits.ok()) mistakes += fmt::format("{}{}", mistakes.empty() ? "" : "; ", std::string(fits.message()));
  }
  const std::string left_over = unknown.empty() ? "" : fmt::format("the model has no {}", NameSome(unknown));
  if (!mistakes.empty()) {
    return absl::InvalidArgumentError(
        fmt::format("spec.training.initFrom: {} does not fit the model: {}{}{}", path, mistakes, left_over.empty() ? "" : "; ", left_over));
  }
  if (!left_over.empty()) LogWarning("spec.training.initFrom: {}: {}; these tensors are not used", path, left_over);
  for (int key = 0; key < parameters.size(); ++key) {
    std::ranges::copy(file->Find(parameters.spec(key).name)->values<const float>(), parameters.values(key).begin());
  }
  return absl::OkStatus();
}

}  // namespace trainyard::engine
