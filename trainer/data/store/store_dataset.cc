#include "trainer/data/store/store_dataset.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "trainer/base/check.h"
#include "trainer/base/file.h"
#include "trainer/base/owned_fd.h"
#include "trainer/base/status_macros.h"
#include "trainer/data/record_file.h"
#include "trainer/tfrecord/tfrecord.h"

namespace trainyard::engine {
namespace {

constexpr int64_t kMaxManifestBytes = 64 << 20;
constexpr size_t kChunk = 1 << 20;

// One shard's file. Thread-safe.
class Shard {
 public:
  static absl::StatusOr<std::unique_ptr<Shard>> Open(const std::string& dir, const StoreShard& what, const StoreManifest& manifest) {
    const std::string path = fmt::format("{}/{}", dir, what.file);
    OwnedFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (fd.get() < 0) return WithContext(FileError(errno, "open", path), fmt::format("a shard of the store {} is missing", dir));
    struct stat status{};
    if (::fstat(fd.get(), &status) != 0) return FileError(errno, "read", path);
    if (!S_ISREG(status.st_mode) || static_cast<uint64_t>(status.st_size) != what.bytes) {
      return absl::DataLossError(
          fmt::format("{} has {} bytes, its store's manifest says {}: it was cut off or written over", path, status.st_size, what.bytes));
    }
    return std::unique_ptr<Shard>(new Shard(std::move(fd), path, what, manifest));
  }

  int64_t examples() const { return what_.examples; }

  absl::Status Read(int64_t row, std::byte* x, std::byte* y) {
    TY_RETURN_IF_ERROR(CheckOnce());
    const auto at = static_cast<uint64_t>(row);
    TY_RETURN_IF_ERROR(ReadAt(fd_.get(), at * x_bytes_, x, x_bytes_, path_, row));
    return ReadAt(fd_.get(), static_cast<uint64_t>(what_.examples) * x_bytes_ + at * y_bytes_, y, y_bytes_, path_, row);
  }

  // The checksum of the whole file, and the range of its labels; once, whatever the result.
  absl::Status CheckOnce() {
    const absl::MutexLock lock(&mutex_);
    if (!checked_) checked_ = Check();
    return *checked_;
  }

 private:
  Shard(OwnedFd fd, std::string path, const StoreShard& what, const StoreManifest& manifest)
      : fd_(std::move(fd)),
        path_(std::move(path)),
        what_(what),
        x_bytes_(manifest.x_bytes()),
        y_bytes_(manifest.y_bytes()),
        has_classes_(manifest.y_dtype == DType::kI32),
        least_(manifest.label_minimum),
        most_(manifest.label_maximum) {}

  absl::Status Check() const {
    std::vector<std::byte> chunk(kChunk);
    uint32_t crc = 0;
    for (uint64_t done = 0; done < what_.bytes; done += chunk.size()) {
      chunk.resize(std::min<uint64_t>(kChunk, what_.bytes - done));
      TY_RETURN_IF_ERROR(ReadAt(fd_.get(), done, chunk.data(), chunk.size(), path_, 0));
      crc = ExtendCrc32c(crc, {reinterpret_cast<const char*>(chunk.data()), chunk.size()});
    }
    if (crc != what_.crc32c) {
      return absl::DataLossError(
          fmt::format("{} is damaged: its bytes have the checksum {:08x}, its store's manifest says {:08x}", path_, crc, what_.crc32c));
    }
    return has_classes_ ? CheckLabels() : absl::OkStatus();
  }

  absl::Status CheckLabels() const {
    std::vector<int32_t> labels(static_cast<size_t>(what_.examples));
    TY_RETURN_IF_ERROR(ReadAt(fd_.get(), static_cast<uint64_t>(what_.examples) * x_bytes_, reinterpret_cast<std::byte*>(labels.data()),
                              labels.size() * sizeof(int32_t), path_, 0));
    for (size_t row = 0; row < labels.size(); ++row) {
      if (labels[row] >= least_ && labels[row] <= most_) continue;
      return absl::DataLossError(fmt::format("{}: label {} of record {} is outside of the {} to {} that its store's manifest says", path_,
                                             labels[row], row, least_, most_));
    }
    return absl::OkStatus();
  }

  const OwnedFd fd_;
  const std::string path_;
  const StoreShard what_;
  const uint64_t x_bytes_;
  const uint64_t y_bytes_;
  const bool has_classes_;
  const int32_t least_;
  const int32_t most_;
  absl::Mutex mutex_;
  std::optional<absl::Status> checked_ ABSL_GUARDED_BY(mutex_);
};

absl::StatusOr<std::vector<std::unique_ptr<Shard>>> OpenShards(const std::string& dir, const StoreManifest& manifest) {
  std::vector<std::unique_ptr<Shard>> shards;
  for (const StoreShard& what : manifest.shards) {
    TY_ASSIGN_OR_RETURN(std::unique_ptr<Shard> shard, Shard::Open(dir, what, manifest));
    shards.push_back(std::move(shard));
  }
  return shards;
}

class StoreDataset final : public Dataset {
 public:
  StoreDataset(DatasetInfo info, std::vector<std::unique_ptr<Shard>> shards, int64_t first)
      : info_(std::move(info)), shards_(std::move(shards)), first_(first) {
    int64_t end = 0;
    for (const auto& shard : shards_) ends_.push_back(end += shard->examples());
  }
  const DatasetInfo& info() const override { return info_; }

  absl::Status Read(std::span<const int64_t> indices, Batch& batch) const override {
    batch.Resize(static_cast<int64_t>(indices.size()), info_.x_dtype, info_.example_shape, info_.y_dtype, info_.label_shape);
    batch.x_scale = info_.x_scale;
    const size_t x_bytes = info_.example_shape.elements() * SizeOf(info_.x_dtype);
    const size_t y_bytes = info_.label_shape.elements() * SizeOf(info_.y_dtype);
    for (size_t row = 0; row < indices.size(); ++row) {
      TY_CHECK(indices[row] >= 0 && indices[row] < info_.examples);
      const int64_t example = first_ + indices[row];
      const auto shard = static_cast<size_t>(std::ranges::upper_bound(ends_, example) - ends_.begin());
      TY_RETURN_IF_ERROR(shards_[shard]->Read(example - (shard == 0 ? 0 : ends_[shard - 1]),
                                              static_cast<std::byte*>(batch.x.data) + row * x_bytes,
                                              static_cast<std::byte*>(batch.y.data) + row * y_bytes));
    }
    return absl::OkStatus();
  }

 private:
  const DatasetInfo info_;
  const std::vector<std::unique_ptr<Shard>> shards_;
  const int64_t first_;
  std::vector<int64_t> ends_;  // one past each shard's last example
};

absl::Status CheckFits(const StoreManifest& manifest, const std::string& dir, const ExpectedData& expected) {
  if (manifest.example_shape.elements() != expected.example_shape.elements()) {
    return absl::InvalidArgumentError(fmt::format("{} has examples of shape {} ({} numbers each), the model's input is {} ({} numbers)",
                                                  dir, manifest.example_shape.ToString(), manifest.example_shape.elements(),
                                                  expected.example_shape.ToString(), expected.example_shape.elements()));
  }
  if (expected.classes > 0) {
    if (manifest.y_dtype != DType::kI32)
      return absl::InvalidArgumentError(fmt::format("{} has targets, the model's loss takes class numbers", dir));
    if (manifest.label_maximum >= expected.classes || manifest.label_minimum < 0) {
      return absl::OutOfRangeError(fmt::format("{} has labels from {} to {}, the model has {} classes (0 to {})", dir,
                                               manifest.label_minimum, manifest.label_maximum, expected.classes, expected.classes - 1));
    }
    return absl::OkStatus();
  }
  if (manifest.y_dtype != DType::kF32)
    return absl::InvalidArgumentError(fmt::format("{} has class numbers, the model's loss takes targets", dir));
  if (manifest.label_shape.elements() != expected.target_shape.elements()) {
    return absl::InvalidArgumentError(fmt::format("{} has targets of shape {}, the model's output is {}", dir,
                                                  manifest.label_shape.ToString(), expected.target_shape.ToString()));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<StoreManifest> ReadManifest(const std::string& dir) {
  const std::string path = fmt::format("{}/{}", dir, kManifestFile);
  const absl::StatusOr<std::string> text = ReadFile(path, kMaxManifestBytes);
  if (!text.ok()) return WithContext(text.status(), fmt::format("{} is not a dataset store", dir));
  return ParseManifest(*text, path);
}

absl::StatusOr<std::unique_ptr<Dataset>> OpenStore(const std::string& dir, ExampleRange range, const ExpectedData& expected) {
  TY_ASSIGN_OR_RETURN(const StoreManifest manifest, ReadManifest(dir));
  TY_RETURN_IF_ERROR(CheckFits(manifest, dir, expected));
  TY_ASSIGN_OR_RETURN(range, ResolveRange(range, manifest.examples, dir));
  TY_ASSIGN_OR_RETURN(std::vector<std::unique_ptr<Shard>> shards, OpenShards(dir, manifest));
  DatasetInfo info;
  info.name = dir;
  info.examples = range.end - range.begin;
  std::vector<int64_t> counts;
  for (const StoreShard& shard : manifest.shards) counts.push_back(shard.examples);
  info.files = FilesWithin(counts, range);
  info.example_shape = expected.example_shape;
  info.x_dtype = manifest.x_dtype;
  info.x_scale = manifest.x_scale;
  info.y_dtype = manifest.y_dtype;
  if (expected.classes == 0) info.label_shape = expected.target_shape;
  return std::make_unique<StoreDataset>(std::move(info), std::move(shards), range.begin);
}

absl::Status VerifyStore(const std::string& dir) {
  TY_ASSIGN_OR_RETURN(const StoreManifest manifest, ReadManifest(dir));
  TY_ASSIGN_OR_RETURN(const std::vector<std::unique_ptr<Shard>> shards, OpenShards(dir, manifest));
  for (const auto& shard : shards) TY_RETURN_IF_ERROR(shard->CheckOnce());
  return absl::OkStatus();
}

}  // namespace trainyard::engine
