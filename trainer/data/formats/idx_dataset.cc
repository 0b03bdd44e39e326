#include "trainer/data/formats/idx_dataset.h"

#include <fmt/format.h>

#include <cstring>
#include <vector>

#include "trainer/base/check.h"
#include "trainer/base/status_macros.h"
#include "trainer/data/memory_dataset.h"
#include "trainer/data/record_file.h"
#include "trainer/tensor/pixel_scale.h"

namespace trainyard::engine {
namespace {

// Images stay in their file, labels are in memory.
class IdxFileDataset : public Dataset {
 public:
  IdxFileDataset(DatasetInfo info, std::unique_ptr<RecordFile> file, IdxHeader header, int64_t first_record, Buffer y)
      : info_(std::move(info)), file_(std::move(file)), header_(header), first_record_(first_record), y_(std::move(y)) {}

  const DatasetInfo& info() const override { return info_; }

  absl::Status Read(std::span<const int64_t> indices, Batch& batch) const override {
    batch.Resize(static_cast<int64_t>(indices.size()), info_.x_dtype, info_.example_shape, info_.y_dtype, info_.label_shape);
    batch.x_scale = info_.x_scale;
    const size_t x_bytes = info_.example_shape.elements() * SizeOf(info_.x_dtype);
    const size_t y_bytes = info_.label_shape.elements() * SizeOf(info_.y_dtype);
    std::vector<std::byte> raw(info_.x_dtype == DType::kU8 ? 0 : header_.record_bytes());
    for (size_t row = 0; row < indices.size(); ++row) {
      TY_CHECK(indices[row] >= 0 && indices[row] < info_.examples);
      auto* x = static_cast<std::byte*>(batch.x.data) + row * x_bytes;
      TY_RETURN_IF_ERROR(file_->Read(first_record_ + indices[row], raw.empty() ? x : raw.data()));
      if (!raw.empty()) DecodeIdxAsF32(header_.type, raw.data(), {reinterpret_cast<float*>(x), x_bytes / sizeof(float)});
      std::memcpy(static_cast<std::byte*>(batch.y.data) + row * y_bytes, y_.data() + indices[row] * y_bytes, y_bytes);
    }
    return absl::OkStatus();
  }

 private:
  const DatasetInfo info_;
  const std::unique_ptr<RecordFile> file_;
  const IdxHeader header_;
  const int64_t first_record_;
  const Buffer y_;
};

absl::StatusOr<std::unique_ptr<ByteSource>> Open(const std::string& path) {
  TY_ASSIGN_OR_RETURN(std::unique_ptr<ByteSource> file, OpenFileSource(path));
  return Unpacked(std::move(file), path);
}

absl::StatusOr<bool> IsGzip(const std::string& path) {
  TY_ASSIGN_OR_RETURN(std::unique_ptr<ByteSource> file, OpenFileSource(path));
  std::array<std::byte, 2> head{};
  TY_ASSIGN_OR_RETURN(size_t got, file->Read(head));
  return got == 2 && head[0] == std::byte{0x1f} && head[1] == std::byte{0x8b};
}

// The labels of the range as info.y_dtype, each checked.
absl::StatusOr<Buffer> ReadLabels(const IdxDatasetFiles& files, const ExpectedData& expected, int64_t images, DatasetInfo& info) {
  TY_ASSIGN_OR_RETURN(std::unique_ptr<ByteSource> source, Open(files.labels));
  TY_ASSIGN_OR_RETURN(IdxHeader header, ReadIdxHeader(*source, files.labels));
  if (header.records() != images) {
    return absl::InvalidArgumentError(fmt::format("{} has {} images but {} has {} labels; expected the same number of both", files.images,
                                                  images, files.labels, header.records()));
  }
  TY_ASSIGN_OR_RETURN(source, Open(files.labels));
  TY_ASSIGN_OR_RETURN(IdxRecords records, ReadIdx(*source, files.labels, files.range));
  const auto count = static_cast<size_t>(records.end - records.begin);
  if (expected.classes == 0) {
    const auto per_record = header.record_shape().elements();
    if (per_record != expected.target_shape.elements()) {
      return absl::InvalidArgumentError(fmt::format("{} has targets of shape {} ({} numbers each), the model's output is {}", files.labels,
                                                    header.record_shape().ToString(), per_record, expected.target_shape.ToString()));
    }
    info.y_dtype = DType::kF32;
    info.label_shape = expected.target_shape;
    Buffer targets(count * per_record * sizeof(float));
    DecodeIdxAsF32(header.type, records.bytes.data(), {targets.as<float>(), count * per_record});
    return targets;
  }
  if (header.shape.rank() != 1 || header.type == IdxType::kF32 || header.type == IdxType::kF64) {
    return absl::InvalidArgumentError(fmt::format("{} holds {} of type {}, expected one whole number for each image", files.labels,
                                                  header.shape.ToString(), IdxTypeName(header.type)));
  }
  info.y_dtype = DType::kI32;
  Buffer labels(count * sizeof(int32_t));
  std::span<int32_t> values(labels.as<int32_t>(), count);
  DecodeIdxAsI32(header.type, records.bytes.data(), values);
  for (size_t i = 0; i < count; ++i) {
    if (values[i] < 0 || values[i] >= expected.classes) {
      return absl::OutOfRangeError(fmt::format("{}: label {} of record {} is not one of the model's {} classes (0 to {})", files.labels,
                                               values[i], records.begin + static_cast<int64_t>(i), expected.classes, expected.classes - 1));
    }
  }
  return labels;
}

absl::Status CheckExamples(const IdxDatasetFiles& files, const IdxHeader& header, const ExpectedData& expected) {
  if (header.record_shape().elements() == expected.example_shape.elements()) return absl::OkStatus();
  return absl::InvalidArgumentError(fmt::format("{} has examples of shape {} ({} numbers each), the model's input is {} ({} numbers)",
                                                files.images, header.record_shape().ToString(), header.record_shape().elements(),
                                                expected.example_shape.ToString(), expected.example_shape.elements()));
}

absl::StatusOr<std::unique_ptr<Dataset>> OpenOnDisk(const IdxDatasetFiles& files, const IdxHeader& header, IdxRange range, DatasetInfo info,
                                                    Buffer y) {
  const RecordFile::Layout layout{.first_byte = header.header_bytes(), .record_bytes = header.record_bytes()};
  TY_ASSIGN_OR_RETURN(std::unique_ptr<RecordFile> file,
                      RecordFile::Open(files.images, layout, header.header_bytes() + header.records() * header.record_bytes()));
  return std::make_unique<IdxFileDataset>(std::move(info), std::move(file), header, range.begin, std::move(y));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Dataset>> OpenIdxDataset(const IdxDatasetFiles& files, const ExpectedData& expected) {
  TY_ASSIGN_OR_RETURN(std::unique_ptr<ByteSource> source, Open(files.images));
  TY_ASSIGN_OR_RETURN(IdxHeader header, ReadIdxHeader(*source, files.images));
  TY_RETURN_IF_ERROR(CheckExamples(files, header, expected));
  TY_ASSIGN_OR_RETURN(IdxRange range, ResolveIdxRange(header, files.range, files.images));
  if (range.begin == range.end)
    return absl::InvalidArgumentError(fmt::format("range [{}, {}) of {} holds no examples", range.begin, range.end, files.images));

  DatasetInfo info;
  info.name = files.images;
  info.examples = range.end - range.begin;
  info.example_shape = expected.example_shape;
  const bool pixels = header.type == IdxType::kU8;
  info.x_dtype = pixels ? DType::kU8 : DType::kF32;
  info.x_scale = pixels ? kPixelScale : 1.0F;
  TY_ASSIGN_OR_RETURN(Buffer y, ReadLabels(files, expected, header.records(), info));

  if (!files.in_memory) {
    TY_ASSIGN_OR_RETURN(bool is_gzip, IsGzip(files.images));
    if (!is_gzip) return OpenOnDisk(files, header, range, std::move(info), std::move(y));
  }
  TY_ASSIGN_OR_RETURN(source, Open(files.images));
  TY_ASSIGN_OR_RETURN(IdxRecords records, ReadIdx(*source, files.images, range));
  Buffer x = std::move(records.bytes);
  if (!pixels) {
    const size_t values = info.examples * info.example_shape.elements();
    Buffer decoded(values * sizeof(float));
    DecodeIdxAsF32(header.type, x.data(), {decoded.as<float>(), values});
    x = std::move(decoded);
  }
  return std::make_unique<MemoryDataset>(std::move(info), std::move(x), std::move(y));
}

}  // namespace trainyard::engine
