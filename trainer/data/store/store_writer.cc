#include "trainer/data/store/store_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <numeric>
#include <system_error>
#include <utility>
#include <vector>

#include "trainer/base/file.h"
#include "trainer/base/staged_folder.h"
#include "trainer/base/status_macros.h"
#include "trainer/data/store/store_manifest.h"
#include "trainer/tfrecord/tfrecord.h"

namespace trainyard::engine {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kRowsAtOnce = 256;

// One shard, written front to back.
class ShardFile {
 public:
  explicit ShardFile(std::unique_ptr<FileSink> file) : file_(std::move(file)) {}

  absl::Status Append(std::string_view bytes) {
    crc_ = ExtendCrc32c(crc_, bytes);
    bytes_ += bytes.size();
    return file_->Append(bytes);
  }
  absl::Status Sync() { return file_->Sync(); }
  uint64_t bytes() const { return bytes_; }
  uint32_t crc32c() const { return crc_; }

 private:
  const std::unique_ptr<FileSink> file_;
  uint64_t bytes_ = 0;
  uint32_t crc_ = 0;
};

std::string_view BytesOf(const Tensor& tensor) { return {static_cast<const char*>(tensor.data), tensor.bytes()}; }

class Writer {
 public:
  Writer(const Dataset& dataset, const StoreOptions& options, std::string folder)
      : dataset_(dataset), options_(options), folder_(std::move(folder)) {
    const DatasetInfo& info = dataset.info();
    manifest_.source = options.source;
    manifest_.examples = info.examples;
    manifest_.x_dtype = info.x_dtype;
    manifest_.example_shape = info.example_shape;
    manifest_.x_scale = info.x_scale;
    manifest_.y_dtype = info.y_dtype;
    manifest_.label_shape = info.label_shape;
  }

  absl::Status Write() {
    for (int64_t shard = 0; shard < options_.shards; ++shard) {
      TY_RETURN_IF_ERROR(
          WriteShard(shard, manifest_.examples * shard / options_.shards, manifest_.examples * (shard + 1) / options_.shards));
    }
    return WriteFileDurably(fmt::format("{}/{}", folder_, kManifestFile), ManifestJson(manifest_), options_.disk);
  }

 private:
  absl::Status WriteShard(int64_t number, int64_t begin, int64_t end) {
    StoreShard shard{.file = fmt::format("shard-{:05}.bin", number), .examples = end - begin};
    TY_ASSIGN_OR_RETURN(std::unique_ptr<FileSink> sink, options_.disk.Create(fmt::format("{}/{}", folder_, shard.file)));
    ShardFile file(std::move(sink));
    std::string labels;
    for (int64_t row = begin; row < end; row += kRowsAtOnce) {
      indices_.resize(static_cast<size_t>(std::min(kRowsAtOnce, end - row)));
      std::iota(indices_.begin(), indices_.end(), row);
      batch_.stages.Clear();
      TY_RETURN_IF_ERROR(dataset_.Read(indices_, batch_));
      TY_RETURN_IF_ERROR(file.Append(BytesOf(batch_.x)));
      labels += BytesOf(batch_.y);
      if (manifest_.y_dtype == DType::kI32) NoteLabels(begin == 0 && row == 0);
      if (options_.progress) options_.progress(row + static_cast<int64_t>(indices_.size()));
    }
    TY_RETURN_IF_ERROR(file.Append(labels));
    TY_RETURN_IF_ERROR(file.Sync());
    shard.bytes = file.bytes();
    shard.crc32c = file.crc32c();
    manifest_.shards.push_back(std::move(shard));
    return absl::OkStatus();
  }

  void NoteLabels(bool first) {
    const auto [least, most] = std::ranges::minmax(batch_.y.values<const int32_t>());
    manifest_.label_minimum = first ? least : std::min(manifest_.label_minimum, least);
    manifest_.label_maximum = first ? most : std::max(manifest_.label_maximum, most);
  }

  const Dataset& dataset_;
  const StoreOptions& options_;
  const std::string folder_;
  StoreManifest manifest_;
  Batch batch_;
  std::vector<int64_t> indices_;
};

}  // namespace

absl::Status WriteStore(const Dataset& dataset, const StoreOptions& options) {
  const int64_t examples = dataset.info().examples;
  if (options.shards < 1 || options.shards > examples) {
    return absl::InvalidArgumentError(
        fmt::format("found {} shards, expected 1 to {}: as many as {} has examples", options.shards, examples, dataset.info().name));
  }
  std::string dir = fs::path(options.dir).lexically_normal().string();
  while (dir.size() > 1 && dir.ends_with('/')) dir.pop_back();
  const auto exists = [&] {
    return absl::AlreadyExistsError(fmt::format("{} is there already; remove it, or choose another folder", dir));
  };
  std::error_code error;
  if (fs::exists(dir, error)) return exists();
  TY_ASSIGN_OR_RETURN(StagedFolder folder, StagedFolder::Create(dir, options.disk));
  TY_RETURN_IF_ERROR(Writer(dataset, options, folder.path()).Write());
  const absl::Status published = folder.Publish();
  return absl::IsAlreadyExists(published) ? exists() : published;
}

}  // namespace trainyard::engine
