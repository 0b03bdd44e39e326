#include "trainer/data/formats/numpy_dataset.h"

#include <fmt/format.h>

#include <cstring>
#include <utility>
#include <vector>

#include "trainer/base/check.h"
#include "trainer/base/status_macros.h"
#include "trainer/data/formats/example_decoder.h"
#include "trainer/data/formats/npy.h"
#include "trainer/data/formats/npz.h"
#include "trainer/data/memory_dataset.h"
#include "trainer/data/record_file.h"

namespace trainyard::engine {
namespace {

absl::StatusOr<std::unique_ptr<ByteSource>> OpenArray(const NumpyFiles& files, const std::string& array) {
  if (!files.archive.empty()) return OpenNpzArray(files.archive, array);
  TY_ASSIGN_OR_RETURN(std::unique_ptr<ByteSource> file, OpenFileSource(array));
  return Unpacked(std::move(file), array);
}

std::string NameOf(const NumpyFiles& files, const std::string& array) {
  return files.archive.empty() ? array : NpzArrayName(files.archive, array);
}

Elements Record(const NpyHeader& header, const std::byte* bytes) {
  return {.type = header.type, .data = bytes, .count = header.record_shape().elements()};
}

absl::StatusOr<Buffer> ReadLabels(const NumpyFiles& files, const ExampleDecoder& decoder, ExampleRange range, int64_t examples) {
  const std::string name = NameOf(files, files.labels);
  TY_ASSIGN_OR_RETURN(const std::unique_ptr<ByteSource> source, OpenArray(files, files.labels));
  TY_ASSIGN_OR_RETURN(const NpyArray array, ReadNpy(*source, name));
  if (array.header.records() != examples) {
    return absl::InvalidArgumentError(fmt::format("{} has {} examples but {} has {} labels; expected the same number of both",
                                                  NameOf(files, files.images), examples, name, array.header.records()));
  }
  Buffer labels((range.end - range.begin) * decoder.y_bytes());
  for (int64_t record = range.begin; record < range.end; ++record) {
    TY_RETURN_IF_ERROR(decoder.Label(Record(array.header, array.bytes.data() + record * array.header.record_bytes()), name, record,
                                     labels.data() + (record - range.begin) * decoder.y_bytes()));
  }
  return labels;
}

// Examples stay in their file, labels are in memory.
class NumpyFileDataset final : public Dataset {
 public:
  NumpyFileDataset(DatasetInfo info, std::unique_ptr<RecordFile> file, const NpyHeader& header, ExampleDecoder decoder, int64_t first,
                   Buffer y)
      : info_(std::move(info)), file_(std::move(file)), header_(header), decoder_(std::move(decoder)), first_(first), y_(std::move(y)) {}
  const DatasetInfo& info() const override { return info_; }

  absl::Status Read(std::span<const int64_t> indices, Batch& batch) const override {
    batch.Resize(static_cast<int64_t>(indices.size()), info_.x_dtype, info_.example_shape, info_.y_dtype, info_.label_shape);
    batch.x_scale = info_.x_scale;
    std::vector<std::byte> raw(header_.record_bytes());
    for (size_t row = 0; row < indices.size(); ++row) {
      TY_CHECK(indices[row] >= 0 && indices[row] < info_.examples);
      const int64_t record = first_ + indices[row];
      TY_RETURN_IF_ERROR(file_->Read(record, raw.data()));
      TY_RETURN_IF_ERROR(decoder_.Example(Record(header_, raw.data()), file_->path(), record,
                                          static_cast<std::byte*>(batch.x.data) + row * decoder_.x_bytes()));
      std::memcpy(static_cast<std::byte*>(batch.y.data) + row * decoder_.y_bytes(), y_.data() + indices[row] * decoder_.y_bytes(),
                  decoder_.y_bytes());
    }
    return absl::OkStatus();
  }

 private:
  const DatasetInfo info_;
  const std::unique_ptr<RecordFile> file_;
  const NpyHeader header_;
  const ExampleDecoder decoder_;
  const int64_t first_;
  const Buffer y_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Dataset>> OpenNumpyDataset(const NumpyFiles& files, const ExpectedData& expected) {
  const std::string name = NameOf(files, files.images);
  TY_ASSIGN_OR_RETURN(std::unique_ptr<ByteSource> source, OpenArray(files, files.images));
  TY_ASSIGN_OR_RETURN(const NpyHeader header, ReadNpyHeader(*source, name));
  if (header.record_shape().elements() != expected.example_shape.elements()) {
    return absl::InvalidArgumentError(fmt::format("{} has examples of shape {} ({} numbers each), the model's input is {} ({} numbers)",
                                                  name, header.record_shape().ToString(), header.record_shape().elements(),
                                                  expected.example_shape.ToString(), expected.example_shape.elements()));
  }
  TY_ASSIGN_OR_RETURN(const ExampleRange range, ResolveRange(files.range, header.records(), name));
  ExampleDecoder decoder(expected, header.type);
  DatasetInfo info = decoder.info();
  info.name = name;
  info.examples = range.end - range.begin;
  TY_ASSIGN_OR_RETURN(Buffer y, ReadLabels(files, decoder, range, header.records()));

  const bool plain_file = files.archive.empty() && !std::string_view(files.images).ends_with(".gz");
  if (!files.in_memory && plain_file) {
    const RecordFile::Layout layout{.first_byte = header.data_begin, .record_bytes = header.record_bytes()};
    TY_ASSIGN_OR_RETURN(std::unique_ptr<RecordFile> file,
                        RecordFile::Open(files.images, layout, header.data_begin + header.records() * header.record_bytes()));
    return std::make_unique<NumpyFileDataset>(std::move(info), std::move(file), header, std::move(decoder), range.begin, std::move(y));
  }
  TY_ASSIGN_OR_RETURN(source, OpenArray(files, files.images));
  TY_ASSIGN_OR_RETURN(const NpyArray array, ReadNpy(*source, name));
  Buffer x(info.examples * decoder.x_bytes());
  for (int64_t record = range.begin; record < range.end; ++record) {
    TY_RETURN_IF_ERROR(decoder.Example(Record(header, array.bytes.data() + record * header.record_bytes()), name, record,
                                       x.data() + (record - range.begin) * decoder.x_bytes()));
  }
  return std::make_unique<MemoryDataset>(std::move(info), std::move(x), std::move(y));
}

}  // namespace trainyard::engine
