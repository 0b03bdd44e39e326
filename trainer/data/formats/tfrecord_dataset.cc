#include "trainer/data/formats/tfrecord_dataset.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <cerrno>
#include <utility>

#include "trainer/base/check.h"
#include "trainer/base/file.h"
#include "trainer/base/owned_fd.h"
#include "trainer/base/status_macros.h"
#include "trainer/data/byte_source.h"
#include "trainer/data/formats/example_decoder.h"
#include "trainer/data/formats/example_table.h"
#include "trainer/data/formats/tfrecord_reader.h"
#include "trainer/data/record_file.h"
#include "trainer/tfrecord/tfrecord.h"

namespace trainyard::engine {
namespace {

constexpr size_t kDataCrcBytes = kTfRecordOverhead - kTfRecordHead;

std::string NameOf(const std::vector<std::string>& paths) {
  return paths.size() == 1 ? paths[0] : fmt::format("{} and {} more", paths[0], paths.size() - 1);
}

absl::StatusOr<bool> IsPacked(const std::string& path) {
  TY_ASSIGN_OR_RETURN(const std::unique_ptr<ByteSource> file, OpenFileSource(path));
  std::string head(2, '\0');
  TY_ASSIGN_OR_RETURN(const size_t got, file->Read(std::as_writable_bytes(std::span(head))));
  return got == 2 && head == "\x1f\x8b";
}

// Calls `each` with every record's example, label and reader.
template <typename Each>
absl::Status ReadAll(const std::string& path, TfExampleParser& parser, const Each& each) {
  TY_ASSIGN_OR_RETURN(std::unique_ptr<ByteSource> file, OpenFileSource(path));
  TY_ASSIGN_OR_RETURN(std::unique_ptr<ByteSource> source, Unpacked(std::move(file), path));
  TfRecordReader reader(std::move(source), path);
  while (true) {
    TY_ASSIGN_OR_RETURN(const std::optional<std::string_view> record, reader.Next());
    if (!record) return absl::OkStatus();
    const absl::StatusOr<TfExampleParser::Parsed> parsed = parser.Parse(*record);
    if (!parsed.ok()) {
      return {parsed.status().code(), fmt::format("{}: record {} {}", path, reader.record(), std::string(parsed.status().message()))};
    }
    TY_RETURN_IF_ERROR(each(*parsed, reader, *record));
  }
}

// Where a record's data lies.
struct Place {
  uint32_t file = 0;
  uint32_t bytes = 0;
  uint64_t begin = 0;
  int64_t record = 0;  // in its file
};

// Records stay in their files.
class TfRecordDataset final : public Dataset {
 public:
  struct File {
    std::string path;
    OwnedFd fd;
  };
  TfRecordDataset(DatasetInfo info, std::vector<File> files, std::vector<Place> places, ExampleDecoder decoder, FeatureNames names)
      : info_(std::move(info)),
        files_(std::move(files)),
        places_(std::move(places)),
        decoder_(std::move(decoder)),
        names_(std::move(names)) {}

  const DatasetInfo& info() const override { return info_; }

  absl::Status Read(std::span<const int64_t> indices, Batch& batch) const override {
    batch.Resize(static_cast<int64_t>(indices.size()), info_.x_dtype, info_.example_shape, info_.y_dtype, info_.label_shape);
    batch.x_scale = info_.x_scale;
    TfExampleParser parser(names_);
    std::string bytes;
    for (size_t row = 0; row < indices.size(); ++row) {
      TY_CHECK(indices[row] >= 0 && indices[row] < info_.examples);
      const Place& place = places_[static_cast<size_t>(indices[row])];
      TY_RETURN_IF_ERROR(WithContext(ReadRow(place, bytes, parser, static_cast<std::byte*>(batch.x.data) + row * decoder_.x_bytes(),
                                             static_cast<std::byte*>(batch.y.data) + row * decoder_.y_bytes()),
                                     "written over while it was in use"));
    }
    return absl::OkStatus();
  }

 private:
  // Everything was right when the data set was opened.
  absl::Status ReadRow(const Place& place, std::string& bytes, TfExampleParser& parser, std::byte* x, std::byte* y) const {
    const File& file = files_[place.file];
    bytes.resize(place.bytes + kDataCrcBytes);
    TY_RETURN_IF_ERROR(
        ReadAt(file.fd.get(), place.begin, reinterpret_cast<std::byte*>(bytes.data()), bytes.size(), file.path, place.record));
    const absl::StatusOr<std::string_view> data = TfRecordData(bytes);
    if (!data.ok())
      return {data.status().code(), fmt::format("{}: record {}: {}", file.path, place.record, std::string(data.status().message()))};
    const absl::StatusOr<TfExampleParser::Parsed> parsed = parser.Parse(*data);
    if (!parsed.ok())
      return {parsed.status().code(), fmt::format("{}: record {} {}", file.path, place.record, std::string(parsed.status().message()))};
    TY_RETURN_IF_ERROR(decoder_.Example(parsed->image, file.path, place.record, x));
    return decoder_.Label(parsed->label, file.path, place.record, y);
  }

  const DatasetInfo info_;
  const std::vector<File> files_;
  const std::vector<Place> places_;
  const ExampleDecoder decoder_;
  const FeatureNames names_;
};

absl::StatusOr<std::unique_ptr<Dataset>> OpenOnDisk(const TfRecordFiles& files, const ExpectedData& expected) {
  std::optional<ExampleDecoder> decoder;
  std::vector<Place> places;
  std::vector<int64_t> counts;
  std::vector<std::byte> row;
  TfExampleParser parser(files.features);
  for (const std::string& path : files.paths) {
    const size_t before = places.size();
    TY_RETURN_IF_ERROR(
        ReadAll(path, parser, [&](const TfExampleParser::Parsed& parsed, const TfRecordReader& reader, std::string_view data) {
          if (!decoder) {
            decoder.emplace(expected, parsed.image.type);
            row.resize(decoder->x_bytes() + decoder->y_bytes());
          }
          TY_RETURN_IF_ERROR(decoder->Example(parsed.image, path, reader.record(), row.data() + decoder->y_bytes()));
          TY_RETURN_IF_ERROR(decoder->Label(parsed.label, path, reader.record(), row.data()));
          places.push_back({.file = static_cast<uint32_t>(counts.size()),
                            .bytes = static_cast<uint32_t>(data.size()),
                            .begin = reader.data_begin(),
                            .record = reader.record()});
          return absl::OkStatus();
        }));
    counts.push_back(static_cast<int64_t>(places.size() - before));
  }
  const std::string name = NameOf(files.paths);
  if (!decoder) return absl::DataLossError(fmt::format("{} holds no records", name));
  TY_ASSIGN_OR_RETURN(const ExampleRange range, ResolveRange(files.range, static_cast<int64_t>(places.size()), name));
  DatasetInfo info = decoder->info();
  info.name = name;
  info.examples = range.end - range.begin;
  info.files = FilesWithin(counts, range);
  places = std::vector<Place>(places.begin() + range.begin, places.begin() + range.end);
  std::vector<TfRecordDataset::File> open;
  for (const std::string& path : files.paths) {
    OwnedFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (fd.get() < 0) return FileError(errno, "open", path);
    open.push_back({path, std::move(fd)});
  }
  return std::make_unique<TfRecordDataset>(std::move(info), std::move(open), std::move(places), *std::move(decoder), files.features);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Dataset>> OpenTfRecordDataset(const TfRecordFiles& files, const ExpectedData& expected) {
  TY_CHECK(!files.paths.empty());
  bool in_memory = files.in_memory;
  for (const std::string& path : files.paths) {
    TY_ASSIGN_OR_RETURN(const bool packed, IsPacked(path));
    in_memory = in_memory || packed;
  }
  if (!in_memory) return OpenOnDisk(files, expected);
  ExampleTable table(expected, files.range);
  TfExampleParser parser(files.features);
  for (const std::string& path : files.paths) {
    table.BeginFile(path);
    TY_RETURN_IF_ERROR(ReadAll(path, parser, [&](const TfExampleParser::Parsed& parsed, const TfRecordReader&, std::string_view) {
      return table.Append(parsed.image, parsed.label);
    }));
  }
  return std::move(table).Finish(NameOf(files.paths));
}

}  // namespace trainyard::engine
