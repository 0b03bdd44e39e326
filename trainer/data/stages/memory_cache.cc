#include "trainer/data/stages/memory_cache.h"

#include <fmt/format.h>

#include <cstring>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "trainer/base/check.h"
#include "trainer/base/status_macros.h"

namespace trainyard::engine {
namespace {

// Memory is taken for so many examples at a time, so that a worker that reads a part of the data
// keeps that part only.
constexpr size_t kChunkExamples = 256;

// Rows of one size.
class Rows {
 public:
  Rows(size_t rows, size_t row_bytes) : row_bytes_(row_bytes), chunks_((rows + kChunkExamples - 1) / kChunkExamples) {}
  void Store(size_t row, const void* from) { std::memcpy(Of(row), from, row_bytes_); }
  void Load(size_t row, void* to) { std::memcpy(to, Of(row), row_bytes_); }

 private:
  std::byte* Of(size_t row) {
    Buffer& chunk = chunks_[row / kChunkExamples];
    if (chunk.size() == 0) chunk = Buffer(kChunkExamples * row_bytes_);
    return chunk.data() + row % kChunkExamples * row_bytes_;
  }
  size_t row_bytes_;
  std::vector<Buffer> chunks_;
};

class MemoryCache final : public Dataset {
 public:
  explicit MemoryCache(std::unique_ptr<Dataset> inner)
      : inner_(std::move(inner)),
        x_each_(inner_->info().example_shape.elements() * SizeOf(inner_->info().x_dtype)),
        y_each_(inner_->info().label_shape.elements() * SizeOf(inner_->info().y_dtype)),
        held_(static_cast<size_t>(inner_->info().examples)),
        x_(held_.size(), x_each_),
        y_(held_.size(), y_each_) {}

  const DatasetInfo& info() const override { return inner_->info(); }

  absl::Status Read(std::span<const int64_t> indices, Batch& batch) const override {
    const absl::MutexLock lock(&mutex_);
    missing_.clear();
    for (const int64_t index : indices) {
      TY_CHECK(index >= 0 && index < info().examples);
      if (!held_[static_cast<size_t>(index)]) missing_.push_back(index);
    }
    if (!missing_.empty()) {
      TY_RETURN_IF_ERROR(inner_->Read(missing_, batch));
      const absl::Time start = batch.stages.Now();
      for (size_t row = 0; row < missing_.size(); ++row) {
        const auto index = static_cast<size_t>(missing_[row]);
        x_.Store(index, static_cast<const std::byte*>(batch.x.data) + row * x_each_);
        y_.Store(index, static_cast<const std::byte*>(batch.y.data) + row * y_each_);
        held_[index] = true;
      }
      batch.stages.Add("cache", start);
    }
    const absl::Time start = batch.stages.Now();
    batch.Resize(static_cast<int64_t>(indices.size()), info().x_dtype, info().example_shape, info().y_dtype, info().label_shape);
    batch.x_scale = info().x_scale;
    for (size_t row = 0; row < indices.size(); ++row) {
      const auto index = static_cast<size_t>(indices[row]);
      x_.Load(index, static_cast<std::byte*>(batch.x.data) + row * x_each_);
      y_.Load(index, static_cast<std::byte*>(batch.y.data) + row * y_each_);
    }
    batch.stages.Add("cache", start);
    return absl::OkStatus();
  }

 private:
  const std::unique_ptr<Dataset> inner_;
  const size_t x_each_;
  const size_t y_each_;
  mutable absl::Mutex mutex_;
  mutable std::vector<bool> held_ ABSL_GUARDED_BY(mutex_);
  mutable Rows x_ ABSL_GUARDED_BY(mutex_);
  mutable Rows y_ ABSL_GUARDED_BY(mutex_);
  mutable std::vector<int64_t> missing_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

absl::StatusOr<std::unique_ptr<Dataset>> CachedInMemory(std::unique_ptr<Dataset> inner, uint64_t max_bytes) {
  const DatasetInfo& info = inner->info();
  const uint64_t each = info.example_shape.elements() * SizeOf(info.x_dtype) + info.label_shape.elements() * SizeOf(info.y_dtype);
  if (each > 0 && static_cast<uint64_t>(info.examples) > max_bytes / each) {
    return absl::InvalidArgumentError(
        fmt::format("{} has {} examples of {} bytes, a cache in memory holds at most {} bytes; use cache: "
                    "{{file: FOLDER}}, or none",
                    info.name, info.examples, each, max_bytes));
  }
  return std::make_unique<MemoryCache>(std::move(inner));
}

}  // namespace trainyard::engine
