#include "trainer/data/formats/cifar10.h"

#include <fmt/format.h>

#include <array>
#include <cstring>
#include <numeric>

#include "trainer/base/status_macros.h"
#include "trainer/data/memory_dataset.h"
#include "trainer/tensor/pixel_scale.h"

namespace trainyard::engine {
namespace {

constexpr uint64_t kMostRecordBytes = uint64_t{16} << 30;

// A buffer that holds what `values` holds.
template <typename T>
Buffer BufferOf(const T* values, size_t count) {
  Buffer buffer(count * sizeof(T));
  if (count > 0) std::memcpy(buffer.data(), values, count * sizeof(T));
  return buffer;
}

}  // namespace

absl::Status AppendCifar10(ByteSource& source, const std::string& name, int classes, uint64_t max_bytes, CifarRecords& records) {
  std::array<std::byte, kCifarRecord> record;
  for (int64_t number = 0;; ++number) {
    TY_ASSIGN_OR_RETURN(const size_t got, source.Read(record));
    if (got == 0 && number > 0) return absl::OkStatus();
    if (got == 0) return absl::DataLossError(fmt::format("{} is empty, expected CIFAR-10 records of {} bytes", name, kCifarRecord));
    if (got < record.size()) {
      return absl::DataLossError(
          fmt::format("{} ends within record {}: found {} bytes of it, expected {} (a label and 32 x 32 pixels in 3 planes)", name, number,
                      got, kCifarRecord));
    }
    const int label = std::to_integer<int>(record[0]);
    if (label >= classes) {
      return absl::OutOfRangeError(fmt::format("{}: label {} of record {} is not one of the model's {} classes (0 to {})", name, label,
                                               number, classes, classes - 1));
    }
    if (records.images.size() + kCifarPixels > max_bytes) {
      return absl::InvalidArgumentError(fmt::format("{}: images of more than {} bytes, at record {}", name, max_bytes, number));
    }
    records.labels.push_back(label);
    const size_t image = records.images.size();
    records.images.resize(image + kCifarPixels);
    for (int pixel = 0; pixel < kCifarPlane; ++pixel) {
      for (int plane = 0; plane < 3; ++plane) {
        records.images[image + pixel * 3 + plane] = std::to_integer<uint8_t>(record[1 + plane * kCifarPlane + pixel]);
      }
    }
  }
}

absl::StatusOr<std::unique_ptr<Dataset>> OpenCifar10Dataset(const Cifar10Files& files, const ExpectedData& expected) {
  if (expected.example_shape != Shape({kCifarSide, kCifarSide, 3})) {
    return absl::InvalidArgumentError(
        fmt::format("CIFAR-10 has images of [32, 32, 3], the model's input is {}", expected.example_shape.ToString()));
  }
  if (expected.classes == 0) return absl::InvalidArgumentError("CIFAR-10 has class numbers, the model's loss takes targets");
  CifarRecords records;
  std::vector<int64_t> counts;
  for (const std::string& path : files.paths) {
    TY_ASSIGN_OR_RETURN(std::unique_ptr<ByteSource> file, OpenFileSource(path));
    TY_ASSIGN_OR_RETURN(const std::unique_ptr<ByteSource> source, Unpacked(std::move(file), path));
    TY_RETURN_IF_ERROR(AppendCifar10(*source, path, expected.classes, kMostRecordBytes, records));
    counts.push_back(static_cast<int64_t>(records.labels.size()) - std::accumulate(counts.begin(), counts.end(), int64_t{0}));
  }
  TY_ASSIGN_OR_RETURN(const ExampleRange range,
                      ResolveRange(files.range, static_cast<int64_t>(records.labels.size()), fmt::format("{} files", files.paths.size())));
  DatasetInfo info;
  info.name = files.paths.size() == 1 ? files.paths[0] : fmt::format("{} and {} more", files.paths[0], files.paths.size() - 1);
  info.examples = range.end - range.begin;
  info.files = FilesWithin(counts, range);
  info.example_shape = expected.example_shape;
  info.x_dtype = DType::kU8;
  info.x_scale = kPixelScale;
  info.y_dtype = DType::kI32;
  const auto examples = static_cast<size_t>(info.examples);
  return std::make_unique<MemoryDataset>(std::move(info),
                                         BufferOf(records.images.data() + range.begin * kCifarPixels, examples * kCifarPixels),
                                         BufferOf(records.labels.data() + range.begin, examples));
}

}  // namespace trainyard::engine
