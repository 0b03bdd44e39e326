// From a record's numbers, as a file holds them, to a row of a batch.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "trainer/data/dataset.h"
#include "trainer/data/formats/elements.h"

namespace trainyard::engine {

// Bytes stay bytes and are scaled by 1/255 in the model; every other type becomes F32 as it is. All
// records have examples of one type, that of the first. Labels are one whole number each where the
// model has classes, else as many numbers as its output. Thread-safe.
class ExampleDecoder {
 public:
  ExampleDecoder(const ExpectedData& expected, ElementType example_type);

  // With everything filled in but name, examples and files.
  const DatasetInfo& info() const { return info_; }
  size_t x_bytes() const { return x_bytes_; }
  size_t y_bytes() const { return y_bytes_; }

  // `out` has room for x_bytes(), y_bytes(). InvalidArgument for a wrong count or type and
  // OutOfRange for a label that is not a class, with `file` and `record` in the message.
  absl::Status Example(const Elements& found, std::string_view file, int64_t record, std::byte* out) const;
  absl::Status Label(const Elements& found, std::string_view file, int64_t record, std::byte* out) const;

 private:
  const ExpectedData expected_;
  const ElementType example_type_;
  DatasetInfo info_;
  size_t x_bytes_;
  size_t y_bytes_;
};

}  // namespace trainyard::engine
