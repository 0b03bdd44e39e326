#include "trainer/predict/open_examples.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <utility>

#include "trainer/base/counted.h"
#include "trainer/base/file.h"
#include "trainer/base/status_macros.h"
#include "trainer/data/byte_source.h"
#include "trainer/data/formats/elements.h"
#include "trainer/data/formats/idx.h"
#include "trainer/data/formats/npy.h"
#include "trainer/picture/decode_image.h"
#include "trainer/picture/jpeg.h"
#include "trainer/picture/png.h"
#include "trainer/predict/csv_examples.h"
#include "trainer/predict/json_examples.h"
#include "trainer/predict/text_examples.h"

namespace trainyard::engine {
namespace {

constexpr size_t kHeadBytes = 8;

// One picture.
class ImageReader final : public ExampleReader {
 public:
  ImageReader(std::string path, const ExampleForm& form) : path_(std::move(path)), form_(form) {}

  absl::StatusOr<bool> Next(Example& example) override {
    if (std::exchange(done_, true)) return false;
    TY_RETURN_IF_ERROR(CheckTakesImages(form_.shape));
    TY_ASSIGN_OR_RETURN(const std::string bytes, ReadFile(path_, kMaxImageBytes));
    TY_ASSIGN_OR_RETURN(const Image image, DecodeImage(bytes));
    TY_ASSIGN_OR_RETURN(const std::vector<uint8_t> pixels, FitImage(image, form_.shape, form_.fit));
    example.dtype = DType::kU8;
    example.index = -1;
    example.bytes.resize(pixels.size());
    std::memcpy(example.bytes.data(), pixels.data(), pixels.size());
    return true;
  }

 private:
  const std::string path_;
  const ExampleForm form_;
  bool done_ = false;
};

// The way in which a file's array is cut into examples.
struct ArrayForm {
  int64_t examples = 0;
  bool batch = false;
  uint64_t record_bytes = 0;
};

absl::StatusOr<ArrayForm> FormOf(const Shape& shape, size_t element_bytes, const ExampleForm& form) {
  const uint64_t bytes = static_cast<uint64_t>(form.shape.elements()) * element_bytes;
  if (IsOneExample(shape, form.shape)) return ArrayForm{.examples = 1, .batch = false, .record_bytes = bytes};
  if (shape.rank() > 0 && shape[0] == 0) {
    return absl::InvalidArgumentError(fmt::format("the array is {}, it holds no example", shape.ToString()));
  }
  if (shape.rank() > 0 && IsOneExample(Shape(shape.extents().subspan(1)), form.shape)) {
    return ArrayForm{.examples = shape[0], .batch = true, .record_bytes = bytes};
  }
  return absl::InvalidArgumentError(fmt::format("the array is {}, the model takes {}, or a batch of those with one axis in front",
                                                shape.ToString(), form.shape.ToString()));
}

// A layer such as max-pooling may drop a NaN, so a finite prediction does not tell.
absl::Status CheckFinite(const Example& example) {
  const size_t count = example.bytes.size() / sizeof(float);
  for (size_t i = 0; i < count; ++i) {
    float number = 0;
    std::memcpy(&number, example.bytes.data() + i * sizeof(float), sizeof(float));
    if (std::isfinite(number)) continue;
    const std::string place = example.index < 0 ? "" : fmt::format("example {}: ", example.index);
    return absl::InvalidArgumentError(
        fmt::format("{}found {} at element {}, expected finite numbers that float32 holds", place, number, i));
  }
  return absl::OkStatus();
}

// Records one after the other; `decode` gives a record's numbers as the model takes them.
class ArrayReader final : public ExampleReader {
 public:
  using Decode = void (*)(int type, const std::vector<std::byte>& record, std::vector<std::byte>& floats);

  // `decode` null: bytes stay bytes.
  ArrayReader(std::unique_ptr<ByteSource> source, ArrayForm form, int type, Decode decode)
      : source_(std::move(source)), form_(form), type_(type), decode_(decode) {}

  absl::StatusOr<bool> Next(Example& example) override {
    if (next_ >= form_.examples) return End();
    const int64_t index = std::exchange(next_, next_ + 1);
    std::vector<std::byte>& record = decode_ == nullptr ? example.bytes : record_;
    record.resize(form_.record_bytes);
    const absl::StatusOr<size_t> got = source_->Read(record);
    if (!got.ok() || *got < record.size()) {
      next_ = form_.examples;
      ended_ = true;
      TY_RETURN_IF_ERROR(got.status());
      return absl::DataLossError(fmt::format("the file is cut off: it ends within example {} of {}", index, form_.examples));
    }
    example.dtype = decode_ == nullptr ? DType::kU8 : DType::kF32;
    example.index = form_.batch ? index : -1;
    if (decode_ == nullptr) return true;
    decode_(type_, record_, example.bytes);
    TY_RETURN_IF_ERROR(CheckFinite(example));
    return true;
  }

 private:
  // False; once an error where bytes follow the last example.
  absl::StatusOr<bool> End() {
    if (std::exchange(ended_, true)) return false;
    std::byte more{};
    TY_ASSIGN_OR_RETURN(const size_t rest, source_->Read({&more, 1}));
    if (rest == 0) return false;
    return absl::DataLossError(
        fmt::format("the file goes on after its {}; its header or its end is wrong", Counted(form_.examples, "example")));
  }

  const std::unique_ptr<ByteSource> source_;
  const ArrayForm form_;
  const int type_;
  const Decode decode_;
  std::vector<std::byte> record_;
  int64_t next_ = 0;
  bool ended_ = false;  // nothing more is read
};

std::span<float> FloatsIn(std::vector<std::byte>& bytes, size_t count) {
  bytes.resize(count * sizeof(float));
  return {reinterpret_cast<float*>(bytes.data()), count};
}

void DecodeNpy(int type, const std::vector<std::byte>& record, std::vector<std::byte>& floats) {
  const auto element = static_cast<ElementType>(type);
  const size_t count = record.size() / ElementBytes(element);
  ConvertToF32({.type = element, .data = record.data(), .count = static_cast<int64_t>(count)}, FloatsIn(floats, count));
}

void DecodeIdx(int type, const std::vector<std::byte>& record, std::vector<std::byte>& floats) {
  const auto element = static_cast<IdxType>(type);
  DecodeIdxAsF32(element, record.data(), FloatsIn(floats, record.size() / IdxElementBytes(element)));
}

absl::StatusOr<std::unique_ptr<ByteSource>> OpenUnpacked(const std::string& path) {
  TY_ASSIGN_OR_RETURN(std::unique_ptr<ByteSource> file, OpenFileSource(path));
  return Unpacked(std::move(file), "the file");
}

absl::StatusOr<std::unique_ptr<ExampleReader>> OpenNpy(const std::string& path, const ExampleForm& form) {
  TY_ASSIGN_OR_RETURN(std::unique_ptr<ByteSource> source, OpenUnpacked(path));
  TY_ASSIGN_OR_RETURN(const NpyHeader header, ReadNpyHeader(*source, "the array"));
  TY_ASSIGN_OR_RETURN(const ArrayForm cut, FormOf(header.shape, ElementBytes(header.type), form));
  return std::make_unique<ArrayReader>(std::move(source), cut, static_cast<int>(header.type),
                                       header.type == ElementType::kU8 ? nullptr : &DecodeNpy);
}

absl::StatusOr<std::unique_ptr<ExampleReader>> OpenIdx(const std::string& path, const ExampleForm& form) {
  TY_ASSIGN_OR_RETURN(std::unique_ptr<ByteSource> source, OpenUnpacked(path));
  TY_ASSIGN_OR_RETURN(const IdxHeader header, ReadIdxHeader(*source, "the array"));
  TY_ASSIGN_OR_RETURN(const ArrayForm cut, FormOf(header.shape, IdxElementBytes(header.type), form));
  return std::make_unique<ArrayReader>(std::move(source), cut, static_cast<int>(header.type),
                                       header.type == IdxType::kU8 ? nullptr : &DecodeIdx);
}

// Owns the file that it reads.
class JsonFileReader final : public ExampleReader {
 public:
  JsonFileReader(std::unique_ptr<std::ifstream> file, const ExampleForm& form)
      : file_(std::move(file)), lines_(ReadJsonLines(*file_, form)) {}
  absl::StatusOr<bool> Next(Example& example) override { return lines_->Next(example); }

 private:
  const std::unique_ptr<std::ifstream> file_;
  const std::unique_ptr<ExampleReader> lines_;
};

// The first bytes in hexadecimal, as people tell formats apart.
std::string HexOf(std::string_view head) {
  std::string hex;
  for (const unsigned char byte : head) hex += fmt::format("{}{:02x}", hex.empty() ? "" : " ", byte);
  return hex;
}

absl::Status UnknownFormat(std::string_view head) {
  constexpr std::string_view kExpected = "expected a PNG or JPEG picture, an .npy or IDX array, or JSON lines in a file named .jsonl";
  if (head.empty()) return absl::InvalidArgumentError(fmt::format("the file is empty, {}", kExpected));
  if (head.starts_with("PK")) return absl::InvalidArgumentError("the file is an archive, expected its arrays as .npy files; unpack it");
  return absl::InvalidArgumentError(fmt::format("the file begins with the bytes {}, {}", HexOf(head), kExpected));
}

}  // namespace

absl::StatusOr<std::unique_ptr<ExampleReader>> OpenExamples(const std::string& path, const ExampleForm& form) {
  if (form.columns != nullptr) return OpenCsvExamples(path, *form.columns);
  if (form.vocabulary != nullptr) return OpenTexts(path, *form.vocabulary);
  if (path.ends_with(".jsonl") || path.ends_with(".json")) {
    TY_RETURN_IF_ERROR(OpenFileSource(path).status());  // refuses a file that is absent, and a folder
    auto file = std::make_unique<std::ifstream>(path, std::ios::binary);
    return std::make_unique<JsonFileReader>(std::move(file), form);
  }
  TY_ASSIGN_OR_RETURN(const std::unique_ptr<ByteSource> source, OpenUnpacked(path));
  std::string head(kHeadBytes, '\0');
  TY_ASSIGN_OR_RETURN(const size_t got, source->Read({reinterpret_cast<std::byte*>(head.data()), head.size()}));
  head.resize(got);
  if (IsPng(head) || IsJpeg(head)) return std::make_unique<ImageReader>(path, form);
  if (head.starts_with("\x93NUMPY")) return OpenNpy(path, form);
  if (head.size() >= 4 && head[0] == 0 && head[1] == 0) return OpenIdx(path, form);
  return UnknownFormat(head);
}

}  // namespace trainyard::engine
