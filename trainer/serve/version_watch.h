// The version that is served, and its replacement by newer checkpoints of a folder.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "trainer/base/mutex.h"
#include "trainer/base/notification.h"
#include "trainer/serve/served_model.h"

namespace trainyard::engine {

// A checkpoint of a folder, by its manifest alone.
struct CheckpointMark {
  std::string path;
  std::string digest;  // Checkpoint::digest(); "": the manifest cannot be read
  friend bool operator==(const CheckpointMark&, const CheckpointMark&) = default;
};

// The checkpoints in `path` (what FindCheckpoint takes), newest first, or with `best` the best one,
// whether good or not. None: there is none yet.
absl::StatusOr<std::vector<CheckpointMark>> CheckpointMarks(const std::string& path, bool best);

// Keeps the newest good checkpoint of a folder loaded. The version before answers until the newer
// one is warm, and answers its own requests to the end. A checkpoint that cannot be used is logged
// once, and the version before stays. It is tried again when its files change, since it may have
// been found while somebody copied it. Thread-safe, but for Poll.
class VersionWatch {
 public:
  // Gives a warm model of a checkpoint's folder.
  using Loader = std::function<absl::StatusOr<std::shared_ptr<ServedModel>>(const std::string& checkpoint)>;
  struct Counts {
    int64_t loaded = 0;
    int64_t refused = 0;
  };

  VersionWatch(std::string path, bool best, Loader load) : path_(std::move(path)), best_(best), load_(std::move(load)) {}
  ~VersionWatch();
  VersionWatch(const VersionWatch&) = delete;
  VersionWatch& operator=(const VersionWatch&) = delete;

  // Looks once, and loads what is new. NotFound: no checkpoint is there. Else the error of those
  // that cannot be used, if no other is there. Not thread-safe, and not after Start.
  absl::Status Poll();
  // From now on a thread polls every `period`.
  void Start(absl::Duration period);

  // Null: nothing was loaded yet.
  std::shared_ptr<ServedModel> current() const;
  Counts counts() const;

 private:
  struct Refusal {
    std::string path;
    std::string files;  // as they were: FilesText
    absl::Status why;
    bool told = false;
  };
  absl::Status Load(const CheckpointMark& mark);
  void Refuse(const std::string& path, std::string files, const absl::Status& why);
  void Tell(Refusal& refusal);

  const std::string path_;
  const bool best_;
  const Loader load_;
  CheckpointMark served_;         // of Poll
  std::vector<Refusal> refused_;  // of Poll: of those that are still there, one for each path
  // Of Poll: the last to hold a model that was replaced, since its destructor waits for its thread,
  // which may not be the one that answered the last request.
  std::vector<std::shared_ptr<ServedModel>> replaced_;
  mutable Mutex mutex_;
  std::shared_ptr<ServedModel> current_ ABSL_GUARDED_BY(mutex_);
  Counts counts_ ABSL_GUARDED_BY(mutex_);
  Notification ending_;
  std::thread thread_;
};

}  // namespace trainyard::engine
