#include "trainer/predict/csv_examples.h"

#include <fmt/format.h>

#include <cstdint>
#include <limits>
#include <utility>

#include "trainer/base/check.h"
#include "trainer/base/log.h"
#include "trainer/base/status_macros.h"
#include "trainer/data/byte_source.h"
#include "trainer/data/csv/csv_reader.h"
#include "trainer/data/csv/fit_columns.h"

namespace trainyard::engine {
namespace {

class StreamSource final : public ByteSource {
 public:
  explicit StreamSource(std::istream& stream) : stream_(stream) {}
  absl::StatusOr<size_t> Read(std::span<std::byte> out) override {
    stream_.read(reinterpret_cast<char*>(out.data()), static_cast<std::streamsize>(out.size()));
    return static_cast<size_t>(stream_.gcount());
  }
  uint64_t AtMostLeft() const override { return std::numeric_limits<uint64_t>::max(); }

 private:
  std::istream& stream_;
};

class CsvExampleReader final : public ExampleReader {
 public:
  CsvExampleReader(std::unique_ptr<CsvReader> reader, std::string name, RowEncoder encoder, int64_t width)
      : reader_(std::move(reader)), name_(std::move(name)), encoder_(std::move(encoder)), width_(static_cast<size_t>(width)) {}

  // The row that was read to see how many columns there are.
  void Begin(CsvRow first) {
    row_ = std::move(first);
    has_row_ = true;
  }

  absl::StatusOr<bool> Next(Example& example) override {
    if (!std::exchange(has_row_, false)) {
      TY_ASSIGN_OR_RETURN(const bool more, reader_->Next(row_));
      if (!more) return End();
    }
    has_begun_ = true;
    example.dtype = DType::kF32;
    example.index = next_++;
    example.bytes.resize(width_ * sizeof(float));
    const auto cell = [this](size_t column) { return std::string_view(row_.cells[column]); };
    const absl::Status encoded = encoder_.Encode(cell, {reinterpret_cast<float*>(example.bytes.data()), width_});
    if (!encoded.ok()) return WithContext(encoded, fmt::format("{}:{}", name_, row_.line));
    if (told_unknown_) return true;
    if (const std::string unknown = encoder_.UnknownCategory(cell); !unknown.empty()) {
      LogWarning("{}:{}: {}, which the training did not have; such categories become zeros, in later rows too", name_, row_.line, unknown);
      told_unknown_ = true;
    }
    return true;
  }

 private:
  // False; once an error where there was no row.
  absl::StatusOr<bool> End() {
    if (std::exchange(has_begun_, true)) return false;
    return absl::InvalidArgumentError("found a header and no rows, expected a row for each example");
  }

  const std::unique_ptr<CsvReader> reader_;
  const std::string name_;
  const RowEncoder encoder_;
  const size_t width_;
  CsvRow row_;
  bool has_row_ = false;
  bool has_begun_ = false;
  bool told_unknown_ = false;
  int64_t next_ = 0;
};

absl::StatusOr<std::unique_ptr<ExampleReader>> Open(std::unique_ptr<ByteSource> source, const std::string& name, const DataConfig& data) {
  TY_CHECK(data.fitted.has_value());
  auto reader = std::make_unique<CsvReader>(std::move(source), name, data.csv.delimiter);
  CsvRow first;
  TY_ASSIGN_OR_RETURN(const bool any, reader->Next(first));
  if (!any) return absl::InvalidArgumentError("the text is empty, expected rows of CSV");
  const std::vector<std::string> header = data.csv.header ? first.cells : std::vector<std::string>();
  TY_ASSIGN_OR_RETURN(RowEncoder encoder, RowEncoder::Create(*data.fitted, header, first.cells.size(), name, data.csv.decimal));
  auto examples = std::make_unique<CsvExampleReader>(std::move(reader), name, std::move(encoder), WidthOf(*data.fitted));
  if (!data.csv.header) examples->Begin(std::move(first));
  return examples;
}

}  // namespace

absl::StatusOr<std::unique_ptr<ExampleReader>> OpenCsvExamples(const std::string& path, const DataConfig& data) {
  TY_ASSIGN_OR_RETURN(std::unique_ptr<ByteSource> file, OpenFileSource(path));
  TY_ASSIGN_OR_RETURN(std::unique_ptr<ByteSource> source, Unpacked(std::move(file), path));
  return Open(std::move(source), path, data);
}

absl::StatusOr<std::unique_ptr<ExampleReader>> ReadCsvExamples(std::istream& lines, const DataConfig& data) {
  return Open(std::make_unique<StreamSource>(lines), "-", data);
}

}  // namespace trainyard::engine
