// A part of a data set whose records follow each other over one or more files.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace trainyard::engine {

// [begin, end) of all records; end -1: to the last one.
struct ExampleRange {
  int64_t begin = 0;
  int64_t end = -1;
};

// With `end` filled in. OutOfRange when it is empty or does not fit into the `records` of `name`.
absl::StatusOr<ExampleRange> ResolveRange(ExampleRange range, int64_t records, std::string_view name);

// How many records of each file lie in the range, without files of none.
std::vector<int64_t> FilesWithin(const std::vector<int64_t>& files, ExampleRange range);

}  // namespace trainyard::engine
