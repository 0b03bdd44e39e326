// The records of a TFRecord file, one after the other.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/statusor.h"
#include "trainer/data/byte_source.h"

namespace trainyard::engine {

// Not thread-safe.
class TfRecordReader {
 public:
  // `name` is what errors call the source.
  TfRecordReader(std::unique_ptr<ByteSource> source, std::string name, uint64_t max_bytes = uint64_t{1} << 30)
      : source_(std::move(source)), name_(std::move(name)), max_bytes_(max_bytes) {}

  // The next record's data, checked against both checksums and valid until the next call; nothing
  // at the end. DataLoss names source, record and byte; memory is only taken for what the source
  // can still hold.
  absl::StatusOr<std::optional<std::string_view>> Next();

  // Of the record that Next() gave last: its number, and where its data begins.
  int64_t record() const { return record_; }
  uint64_t data_begin() const { return data_begin_; }

 private:
  absl::Status Damaged(std::string_view what) const;

  const std::unique_ptr<ByteSource> source_;
  const std::string name_;
  const uint64_t max_bytes_;
  std::string bytes_;
  int64_t record_ = -1;
  uint64_t data_begin_ = 0;
  uint64_t next_ = 0;  // where the next record's head begins
};

}  // namespace trainyard::engine
