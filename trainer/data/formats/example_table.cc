#include "trainer/data/formats/example_table.h"

#include <fmt/format.h>

#include <cstring>
#include <utility>

#include "trainer/base/check.h"
#include "trainer/base/status_macros.h"
#include "trainer/data/memory_dataset.h"

namespace trainyard::engine {
namespace {

Buffer BufferOf(std::vector<std::byte> bytes) {
  Buffer buffer(bytes.size());
  if (!bytes.empty()) std::memcpy(buffer.data(), bytes.data(), bytes.size());
  return buffer;
}

}  // namespace

void ExampleTable::BeginFile(std::string file) {
  file_ = std::move(file);
  counts_.push_back(0);
}

absl::Status ExampleTable::Append(const Elements& example, const Elements& label) {
  TY_CHECK(!counts_.empty());
  if (!decoder_) {
    decoder_ = std::make_unique<ExampleDecoder>(expected_, example.type);
    row_.resize(decoder_->x_bytes() + decoder_->y_bytes());
  }
  // The label first: its size keeps the example behind it aligned, also to floats.
  std::byte* const y = row_.data();
  std::byte* const x = y + decoder_->y_bytes();
  const int64_t record = counts_.back()++;
  TY_RETURN_IF_ERROR(decoder_->Example(example, file_, record, x));
  TY_RETURN_IF_ERROR(decoder_->Label(label, file_, record, y));
  const int64_t place = records_++;
  if (place < range_.begin || (range_.end >= 0 && place >= range_.end)) return absl::OkStatus();
  if (x_.size() + y_.size() + row_.size() > max_bytes_) {
    return absl::InvalidArgumentError(fmt::format("{}: more than {} bytes of examples, at record {}", file_, max_bytes_, record));
  }
  x_.insert(x_.end(), x, row_.data() + row_.size());
  y_.insert(y_.end(), y, x);
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Dataset>> ExampleTable::Finish(std::string name) && {
  if (!decoder_) return absl::DataLossError(fmt::format("{} holds no records", name));
  TY_ASSIGN_OR_RETURN(const ExampleRange range, ResolveRange(range_, records_, name));
  DatasetInfo info = decoder_->info();
  info.name = std::move(name);
  info.examples = range.end - range.begin;
  info.files = FilesWithin(counts_, range);
  Buffer x = BufferOf(std::exchange(x_, {}));
  return std::make_unique<MemoryDataset>(std::move(info), std::move(x), BufferOf(std::exchange(y_, {})));
}

}  // namespace trainyard::engine
