// Checkpoints: <dir>/step-<n>/ with safetensors shards and manifest.json.
//
// manifest.json: {"format": "trainyard-checkpoint", "version": 1, "step", "epoch", "offset",
// "seed", "fingerprint", "model", "strategy", "state": {…}, "shards": [{"file", "bytes",
// "sha256"}], "description": {the same of model.json, model_description.h}}. A folder is written
// unseen (staged_folder.h); all files and the folder are fsynced, and then it gets its name. So a
// folder with the final name is whole, unless the disk itself lost bytes. Sizes and checksums show
// that. <dir>/best/ is a checkpoint of the same form that no rotation removes.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "trainer/base/disk.h"
#include "trainer/data/sampler.h"
#include "trainer/tensor/parameter_set.h"
#include "trainer/tensor/safetensors.h"

namespace trainyard::engine {

// Keys of CheckpointInfo::state.
inline constexpr char kModelState[] = "model";                  // spec.training.model as JSON, in checkpoints without a model.json
inline constexpr char kVocabularyState[] = "vocabularySha256";  // of a text model; the vocabulary itself stands beside the checkpoints

struct CheckpointInfo {
  int64_t step = 0;  // training steps done
  SamplerPosition position;
  uint64_t seed = 0;
  uint64_t fingerprint = 0;                  // ParameterSet::Fingerprint()
  std::string model;                         // for messages
  std::string strategy;                      // for messages
  std::map<std::string, std::string> state;  // anything small that a resume needs: RNG counters, best metric …
  std::string description;                   // model.json as it stands; "": an older version wrote the checkpoint
};

// One file of a checkpoint, "<name>.safetensors". The tensors must stay valid during Save.
struct CheckpointShard {
  std::string name;
  std::vector<NamedTensor> tensors;
};

// Appends every tensor of `set` under its own name, or as "<parameter>/<slot>" where a slot is
// given.
void AppendTensors(const ParameterSet& set, std::string_view slot, std::vector<NamedTensor>& tensors);

struct SkippedCheckpoint {
  int64_t step = 0;
  std::string path;
  std::string reason;
};

// A checkpoint in memory, checked against its manifest.
class Checkpoint {
 public:
  const CheckpointInfo& info() const { return info_; }
  const std::string& path() const { return path_; }
  // Null when absent.
  const Tensor* Find(std::string_view name) const;
  // Copies every tensor of `set` from the checkpoint ("<parameter>/<slot>" where a slot is given).
  // NotFound, InvalidArgument (shape or element type) name checkpoint and tensor; the set may then
  // be partly written.
  absl::Status CopyTo(ParameterSet& set, std::string_view slot = "") const;
  // As it stands on disk, to be saved again; points into this object.
  std::vector<CheckpointShard> Shards() const;
  // Tells two checkpoints of one step apart: the SHA-256 of its manifest.
  const std::string& digest() const { return digest_; }
  // The checkpoint in one folder, whose tensors' bytes stay in memory once. DataLoss names what is
  // torn or corrupt.
  static absl::StatusOr<Checkpoint> Read(const std::string& named);

 private:
  CheckpointInfo info_;
  std::string path_;
  std::string digest_;
  std::vector<std::string> shard_names_;  // parallel to shards_
  std::vector<Safetensors> shards_;
};

struct NewestCheckpoint {
  std::optional<Checkpoint> checkpoint;    // absent: nothing good to start from
  std::vector<SkippedCheckpoint> skipped;  // newest first; each was also logged as a warning
};

// The checkpoints of one job. One process writes (the best one: the process that evaluates); any
// may read at the same time.
class CheckpointStore {
 public:
  // Keeps the newest `keep` (>= 1).
  // `disk` must outlive it.
  CheckpointStore(std::string dir, int keep, Disk& disk = RealDisk()) : dir_(std::move(dir)), keep_(keep), disk_(&disk) {}

  // Returns the folder. The older ones beyond `keep` are removed only when the new one is durable.
  // Any error (ResourceExhausted: disk full) leaves them as they were and removes the half-written
  // one. A checkpoint of the same step is replaced. Checkpoints of later steps, of a line of
  // training that was given up, are removed.
  absl::StatusOr<std::string> Save(const CheckpointInfo& info, std::span<const CheckpointShard> shards);

  // The same as <dir>/best, in place of the one before. Nothing else is removed.
  absl::StatusOr<std::string> SaveBest(const CheckpointInfo& info, std::span<const CheckpointShard> shards);
  // Nothing where there is none. DataLoss: it is torn or corrupt; FailedPrecondition: of another
  // model. Another process may replace it meanwhile: then the old one or the new one is read.
  absl::StatusOr<std::optional<Checkpoint>> LoadBest(uint64_t fingerprint, std::string_view model) const;

  // The newest manifest that can be read; nothing where there is none.
  absl::StatusOr<std::optional<CheckpointInfo>> NewestInfo() const;

  // Its manifest; nothing where there is none. DataLoss: the manifest cannot be read.
  absl::StatusOr<std::optional<CheckpointInfo>> BestInfo() const;

  // The newest good one. A torn or corrupt one is skipped for the one before.
  absl::StatusOr<NewestCheckpoint> NewestGood() const;

  // The newest good one, whose fingerprint must be `fingerprint`: FailedPrecondition names both
  // models when it is of another.
  absl::StatusOr<NewestCheckpoint> LoadNewest(uint64_t fingerprint, std::string_view model) const;

  // The same answer at once, from the newest manifest that can be read. OK where there is none.
  absl::Status CheckNewest(uint64_t fingerprint, std::string_view model) const;

  // Steps of all complete-looking folders, newest first; empty when the folder does not exist.
  absl::StatusOr<std::vector<int64_t>> Steps() const;

  const std::string& dir() const { return dir_; }
  // "<dir>/best"
  std::string BestPath() const;
  // "<dir>/step-<n>"
  std::string PathOf(int64_t step) const;
  // Checkpoint::digest() of the checkpoint in a folder, without reading its shards.
  static absl::StatusOr<std::string> DigestOf(const std::string& path);

 private:
  // Writes the folder <dir>/<name>, replacing an older one as a whole.
  absl::StatusOr<std::string> Write(std::string_view name, const CheckpointInfo& info, std::span<const CheckpointShard> shards);
  void RemoveOldOnes(int64_t newest) const;

  std::string dir_;
  int keep_;
  Disk* disk_;
};

// FailedPrecondition names both models where the checkpoint is of another model.
absl::Status CheckModel(const Checkpoint& checkpoint, uint64_t fingerprint, std::string_view model);

// spec.training.initFrom: copies every tensor of `parameters` from a safetensors file by name. All
// that is missing or of another shape is named in one error, with the tensors of the file that the
// model does not have. Such tensors alone are not an error but a warning in the log.
absl::Status InitFrom(const std::string& path, ParameterSet& parameters);

}  // namespace trainyard::engine
