// CIFAR-10 binary files (Krizhevsky 2009), without a header. A record is a label byte and 3,072
// pixel bytes: the red plane, then green, then blue, row by row.
// https://www.cs.toronto.edu/~kriz/cifar.html
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "trainer/data/byte_source.h"
#include "trainer/data/dataset.h"
#include "trainer/data/example_range.h"

namespace trainyard::engine {

inline constexpr int kCifarSide = 32;
inline constexpr int kCifarPlane = kCifarSide * kCifarSide;
inline constexpr int kCifarPixels = 3 * kCifarPlane;
inline constexpr int kCifarRecord = 1 + kCifarPixels;

struct CifarRecords {
  std::vector<uint8_t> images;  // [records][32][32][3]: the planes interleaved
  std::vector<int32_t> labels;  // each below `classes`
};

// Appends all records of `source`, called `name` in errors. DataLoss: it is empty or ends within a
// record; OutOfRange: a label; InvalidArgument: more than `max_bytes` of records in all.
absl::Status AppendCifar10(ByteSource& source, const std::string& name, int classes, uint64_t max_bytes, CifarRecords& records);

struct Cifar10Files {
  std::vector<std::string> paths;  // .gz or not; their records follow each other
  ExampleRange range;
};

// All in memory, images as bytes that the model sees divided by 255. Checked before anything is
// trained: the model's input is [32, 32, 3] and its output classes, files are whole, labels are
// classes.
absl::StatusOr<std::unique_ptr<Dataset>> OpenCifar10Dataset(const Cifar10Files& files, const ExpectedData& expected);

}  // namespace trainyard::engine
