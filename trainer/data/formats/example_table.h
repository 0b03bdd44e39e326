// Examples in memory, put together record by record.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "trainer/data/example_range.h"
#include "trainer/data/formats/example_decoder.h"

namespace trainyard::engine {

// Not thread-safe.
class ExampleTable {
 public:
  ExampleTable(const ExpectedData& expected, ExampleRange range, uint64_t max_bytes = uint64_t{64} << 30)
      : expected_(expected), range_(range), max_bytes_(max_bytes) {}

  // The records that follow are those of `file`.
  void BeginFile(std::string file);
  // The next record: checked always, kept within the range. InvalidArgument when more than
  // max_bytes would be held.
  absl::Status Append(const Elements& example, const Elements& label);

  int64_t records_in_file() const { return counts_.back(); }
  // The records of the range as a data set called `name`; DataLoss when no file had any.
  absl::StatusOr<std::unique_ptr<Dataset>> Finish(std::string name) &&;

 private:
  const ExpectedData expected_;
  const ExampleRange range_;
  const uint64_t max_bytes_;
  std::string file_;
  std::unique_ptr<ExampleDecoder> decoder_;  // made at the first record
  std::vector<std::byte> row_;
  std::vector<std::byte> x_;
  std::vector<std::byte> y_;
  std::vector<int64_t> counts_;  // records of each file
  int64_t records_ = 0;
};

}  // namespace trainyard::engine
