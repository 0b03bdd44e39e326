#include "trainer/data/formats/image_dataset.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "trainer/base/check.h"
#include "trainer/base/cpu_quota.h"
#include "trainer/base/file.h"
#include "trainer/base/status_macros.h"
#include "trainer/base/thread_pool.h"
#include "trainer/base/thread_room.h"
#include "trainer/data/formats/image_folder.h"
#include "trainer/picture/decode_image.h"
#include "trainer/tensor/pixel_scale.h"

namespace trainyard::engine {
namespace {

constexpr int kMostThreads = 8;

class ImageDataset final : public Dataset {
 public:
  ImageDataset(DatasetInfo info, std::string dir, std::vector<ImageFile> files, ImageFit fit, int threads)
      : info_(std::move(info)), dir_(std::move(dir)), files_(std::move(files)), fit_(fit), pool_(threads) {}

  const DatasetInfo& info() const override { return info_; }

  absl::Status Read(std::span<const int64_t> indices, Batch& batch) const override {
    batch.Resize(static_cast<int64_t>(indices.size()), info_.x_dtype, info_.example_shape, info_.y_dtype, info_.label_shape);
    batch.x_scale = info_.x_scale;
    const auto each = static_cast<size_t>(info_.example_shape.elements());
    uint8_t* const x = batch.x.values<uint8_t>().data();
    int32_t* const y = batch.y.values<int32_t>().data();
    const absl::MutexLock lock(&mutex_);
    std::vector<absl::Status> first_errors(static_cast<size_t>(pool_.threads()));  // of each thread's piece, in the order of the pieces
    pool_.Run(static_cast<int64_t>(indices.size()), [&](int64_t begin, int64_t end, int thread) {
      for (int64_t row = begin; row < end && first_errors[thread].ok(); ++row) {
        TY_CHECK(indices[row] >= 0 && indices[row] < info_.examples);
        const ImageFile& file = files_[static_cast<size_t>(indices[row])];
        y[row] = file.label;
        first_errors[thread] = ReadImage(file.path, {x + static_cast<size_t>(row) * each, each});
      }
    });
    for (const absl::Status& error : first_errors) TY_RETURN_IF_ERROR(error);
    return absl::OkStatus();
  }

 private:
  absl::Status ReadImage(const std::string& file, std::span<uint8_t> to) const {
    const std::string path = dir_ + "/" + file;
    TY_ASSIGN_OR_RETURN(const std::string bytes, ReadFile(path, kMaxImageBytes));
    const absl::StatusOr<Image> image = DecodeImage(bytes);
    if (!image.ok()) return WithContext(image.status(), path);
    TY_ASSIGN_OR_RETURN(const std::vector<uint8_t> pixels, FitImage(*image, info_.example_shape, fit_));
    TY_CHECK(pixels.size() == to.size());
    std::memcpy(to.data(), pixels.data(), to.size());
    return absl::OkStatus();
  }

  const DatasetInfo info_;
  const std::string dir_;
  const std::vector<ImageFile> files_;
  const ImageFit fit_;
  mutable absl::Mutex mutex_;
  mutable ThreadPool pool_ ABSL_GUARDED_BY(mutex_);
};

absl::Status CheckModel(const ImageDatasetOptions& options, const ExpectedData& expected) {
  if (!CheckTakesImages(expected.example_shape).ok()) {
    return absl::InvalidArgumentError(fmt::format("the model takes {}, expected [height, width, 1] or [height, width, 3] for pictures",
                                                  expected.example_shape.ToString()));
  }
  if (expected.classes == 0) {
    return absl::InvalidArgumentError("the folders of pictures are classes, the model gives numbers; use the loss softmaxCrossEntropy");
  }
  if (static_cast<size_t>(expected.classes) != options.classes.size()) {
    return absl::InvalidArgumentError(fmt::format("{} has {} classes ({}, …), the model has {}; its last layer needs {} units", options.dir,
                                                  options.classes.size(), options.classes.empty() ? "" : options.classes.front(),
                                                  expected.classes, options.classes.size()));
  }
  return absl::OkStatus();
}

// In the order that the seed draws, those of the part.
std::vector<ImageFile> PartOf(std::vector<ImageFile> files, const ImageDatasetOptions& options) {
  std::vector<uint64_t> keys;
  std::vector<int32_t> labels;
  for (const ImageFile& file : files) {
    keys.push_back(SplitKey(options.seed, file.path));
    labels.push_back(file.label);
  }
  const std::vector<bool> evaluation = EvaluationPart(keys, labels, options.eval_fraction);
  std::vector<size_t> chosen;
  for (size_t i = 0; i < files.size(); ++i) {
    if (options.part == SetPart::kAll || evaluation[i] == (options.part == SetPart::kEvaluation)) chosen.push_back(i);
  }
  std::ranges::sort(chosen, [&](size_t a, size_t b) { return keys[a] != keys[b] ? keys[a] < keys[b] : a < b; });
  std::vector<ImageFile> part;
  part.reserve(chosen.size());
  for (const size_t i : chosen) part.push_back(std::move(files[i]));
  return part;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Dataset>> OpenImageDataset(const ImageDatasetOptions& options, const ExpectedData& expected) {
  TY_RETURN_IF_ERROR(CheckModel(options, expected));
  TY_ASSIGN_OR_RETURN(std::vector<ImageFile> files,
                      ListImages({.dir = options.dir, .classes = options.classes, .every_class = options.every_class}));
  const size_t all = files.size();
  files = PartOf(std::move(files), options);
  if (files.empty()) {
    return absl::InvalidArgumentError(
        fmt::format("{}: evalFraction {} of {} pictures leaves none for the evaluation", options.dir, options.eval_fraction, all));
  }
  DatasetInfo info{.name = options.dir, .examples = static_cast<int64_t>(files.size()), .files = {}};
  info.example_shape = expected.example_shape;
  info.x_dtype = DType::kU8;
  info.x_scale = kPixelScale;
  const int threads = std::min(CpuQuota(), kMostThreads);
  TY_RETURN_IF_ERROR(CheckThreadRoom(threads - 1));
  return std::make_unique<ImageDataset>(std::move(info), options.dir, std::move(files), options.fit, threads);
}

}  // namespace trainyard::engine
