#include <arrow/api.h>
#include <arrow/io/file.h>
#include <arrow/memory_pool.h>
#include <fmt/format.h>
#include <parquet/arrow/reader.h>
#include <parquet/arrow/schema.h>
#include <parquet/file_reader.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "trainer/data/formats/parquet_interface.h"

namespace trainyard::engine {
namespace {

using arrow::Array;
using arrow::Type;

constexpr char kReadTypes[] =
    "binary, fixed_size_binary, or a list, fixed_size_list or single values of uint8, int32, int64, float, double";

arrow::Result<ElementType> ElementTypeOf(const arrow::DataType& type, std::string_view column) {
  switch (type.id()) {
    case Type::UINT8:
      return ElementType::kU8;
    case Type::INT32:
      return ElementType::kI32;
    case Type::INT64:
      return ElementType::kI64;
    case Type::FLOAT:
      return ElementType::kF32;
    case Type::DOUBLE:
      return ElementType::kF64;
    default:
      return arrow::Status::TypeError(fmt::format("column \"{}\" has values of type {}, expected {}", column, type.ToString(), kReadTypes));
  }
}

// The rows of one column within a row group.
class Column {
 public:
  static arrow::Result<Column> Make(std::shared_ptr<Array> array, std::string name) {
    Column column(std::move(array), std::move(name));
    switch (column.array_->type_id()) {
      case Type::BINARY:
      case Type::LARGE_BINARY:
      case Type::FIXED_SIZE_BINARY:
        return column;
      case Type::LIST:
        column.values_ = static_cast<const arrow::ListArray&>(*column.array_).values();
        break;
      case Type::LARGE_LIST:
        column.values_ = static_cast<const arrow::LargeListArray&>(*column.array_).values();
        break;
      case Type::FIXED_SIZE_LIST:
        column.values_ = static_cast<const arrow::FixedSizeListArray&>(*column.array_).values();
        break;
      default:
        column.values_ = column.array_;
        break;
    }
    ARROW_ASSIGN_OR_RAISE(column.type_, ElementTypeOf(*column.values_->type(), column.name_));
    return column;
  }

  int64_t rows() const { return array_->length(); }

  arrow::Result<Elements> At(int64_t row) const {
    if (array_->IsNull(row)) return NoValue();
    switch (array_->type_id()) {
      case Type::BINARY:
        return Bytes(static_cast<const arrow::BinaryArray&>(*array_).GetView(row));
      case Type::LARGE_BINARY:
        return Bytes(static_cast<const arrow::LargeBinaryArray&>(*array_).GetView(row));
      case Type::FIXED_SIZE_BINARY:
        return Bytes(static_cast<const arrow::FixedSizeBinaryArray&>(*array_).GetView(row));
      case Type::LIST: {
        const auto& list = static_cast<const arrow::ListArray&>(*array_);
        return Values(list.value_offset(row), list.value_length(row));
      }
      case Type::LARGE_LIST: {
        const auto& list = static_cast<const arrow::LargeListArray&>(*array_);
        return Values(list.value_offset(row), list.value_length(row));
      }
      case Type::FIXED_SIZE_LIST: {
        const auto& list = static_cast<const arrow::FixedSizeListArray&>(*array_);
        return Values(list.value_offset(row), list.value_length(row));
      }
      default:
        return Values(row, 1);
    }
  }

 private:
  Column(std::shared_ptr<Array> array, std::string name) : array_(std::move(array)), name_(std::move(name)) {}

  arrow::Status NoValue() const { return arrow::Status::Invalid(fmt::format("column \"{}\" has no value", name_)); }
  static Elements Bytes(std::string_view bytes) {
    return {
        .type = ElementType::kU8, .data = reinterpret_cast<const std::byte*>(bytes.data()), .count = static_cast<int64_t>(bytes.size())};
  }
  arrow::Result<Elements> Values(int64_t begin, int64_t count) const {
    if (begin < 0 || count < 0 || begin > values_->length() - count)
      return arrow::Status::Invalid(fmt::format("column \"{}\" has a list that leaves its values", name_));
    if (values_->null_count() > 0) {
      for (int64_t i = begin; i < begin + count; ++i) {
        if (values_->IsNull(i)) return NoValue();
      }
    }
    const auto& buffer = values_->data()->buffers[1];
    const auto* data = buffer == nullptr ? nullptr : reinterpret_cast<const std::byte*>(buffer->data());
    return Elements{.type = type_, .data = data + (values_->offset() + begin) * static_cast<int64_t>(ElementBytes(type_)), .count = count};
  }

  std::shared_ptr<Array> array_;
  std::string name_;
  std::shared_ptr<Array> values_;
  ElementType type_ = ElementType::kU8;
};

void AddLeaves(const parquet::arrow::SchemaField& field, std::vector<int>& leaves) {
  if (field.is_leaf()) leaves.push_back(field.column_index);
  for (const parquet::arrow::SchemaField& child : field.children) AddLeaves(child, leaves);
}

arrow::Result<std::vector<int>> LeavesOf(const parquet::arrow::SchemaManifest& manifest, const std::string& column) {
  std::string names;
  for (const parquet::arrow::SchemaField& field : manifest.schema_fields) {
    if (field.field->name() == column) {
      std::vector<int> leaves;
      AddLeaves(field, leaves);
      return leaves;
    }
    if (names.size() < 200) names += fmt::format("{}\"{}\"", names.empty() ? "" : ", ", field.field->name().substr(0, 64));
  }
  return arrow::Status::KeyError(
      fmt::format("has no column \"{}\"; it has {}. Name the right ones in data.features", column, names.empty() ? "none" : names));
}

arrow::Result<Column> ColumnOf(const arrow::Table& table, const std::string& name, arrow::MemoryPool& pool) {
  const std::shared_ptr<arrow::ChunkedArray> chunks = table.GetColumnByName(name);
  if (chunks == nullptr) return arrow::Status::KeyError(fmt::format("has no column \"{}\"", name));
  ARROW_ASSIGN_OR_RAISE(std::shared_ptr<Array> array, arrow::Concatenate(chunks->chunks(), &pool));
  return Column::Make(std::move(array), name);
}

// Ok(false): row() ended it.
arrow::Result<bool> ReadAll(const ParquetRequest& request) {
  arrow::CappedMemoryPool pool(arrow::default_memory_pool(), static_cast<int64_t>(request.max_bytes));
  ARROW_ASSIGN_OR_RAISE(auto file, arrow::io::ReadableFile::Open(request.path, &pool));
  parquet::arrow::FileReaderBuilder builder;
  ARROW_RETURN_NOT_OK(builder.Open(std::move(file), parquet::ReaderProperties(&pool)));
  parquet::ArrowReaderProperties properties;
  properties.set_pre_buffer(false);  // Arrow's threads would hold memory of the pool after this function
  ARROW_ASSIGN_OR_RAISE(const auto reader, builder.memory_pool(&pool)->properties(properties)->Build());
  reader->set_use_threads(false);
  ARROW_ASSIGN_OR_RAISE(std::vector<int> leaves, LeavesOf(reader->manifest(), request.image));
  ARROW_ASSIGN_OR_RAISE(const std::vector<int> label_leaves, LeavesOf(reader->manifest(), request.label));
  leaves.insert(leaves.end(), label_leaves.begin(), label_leaves.end());
  std::ranges::sort(leaves);
  const auto twice = std::ranges::unique(leaves);
  leaves.erase(twice.begin(), twice.end());
  int64_t record = 0;
  for (int group = 0; group < reader->num_row_groups(); ++group) {
    ARROW_ASSIGN_OR_RAISE(const std::shared_ptr<arrow::Table> table, reader->ReadRowGroup(group, leaves));
    ARROW_RETURN_NOT_OK(table->ValidateFull());
    if (table->num_rows() == 0) continue;
    ARROW_ASSIGN_OR_RAISE(const Column images, ColumnOf(*table, request.image, pool));
    ARROW_ASSIGN_OR_RAISE(const Column labels, ColumnOf(*table, request.label, pool));
    for (int64_t row = 0; row < std::min(images.rows(), labels.rows()); ++row, ++record) {
      const arrow::Result<Elements> image = images.At(row);
      const arrow::Result<Elements> label = labels.At(row);
      for (const arrow::Status& status : {image.status(), label.status()}) {
        if (!status.ok()) return status.WithMessage(fmt::format("record {}: {}", record, status.message()));
      }
      if (!request.row(request.context, *image, *label)) return false;
    }
  }
  return true;
}

void SetError(const ParquetRequest& request, std::string_view message) {
  const size_t size = std::min(message.size(), request.error_bytes - 1);
  std::memcpy(request.error, message.data(), size);
  request.error[size] = '\0';
}

}  // namespace
}  // namespace trainyard::engine

extern "C" __attribute__((visibility("default"))) bool trainyard_read_parquet(const trainyard::engine::ParquetRequest* request) {
  using namespace trainyard::engine;  // NOLINT(google-build-using-namespace): the module's one function
  request->error[0] = '\0';
  try {
    const arrow::Result<bool> done = ReadAll(*request);
    if (!done.ok()) SetError(*request, done.status().message());
    return done.ok() && *done;
  } catch (const std::exception& error) {
    SetError(*request, error.what());
    return false;
  }
}
