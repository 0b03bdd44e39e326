// A data set of Parquet files, read by Arrow.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "trainer/data/data_config.h"
#include "trainer/data/dataset.h"
#include "trainer/data/example_range.h"
#include "trainer/data/formats/elements.h"

namespace trainyard::engine {

struct ParquetFiles {
  std::vector<std::string> paths;  // their records follow each other
  ExampleRange range;
  FeatureNames columns;
  std::string module;  // the shared object that reads them; "": trainyard-parquet.so beside the program
  uint64_t max_bytes =
      uint64_t{64} << 30;  // of all examples, and of what Arrow may hold of a file: damaged ones ask for more than there is
};

// All in memory. Examples are columns of bytes, of lists, or of single values; labels of single
// whole numbers (or of targets). Unimplemented when this build has no module, with how to get one.
absl::StatusOr<std::unique_ptr<Dataset>> OpenParquetDataset(const ParquetFiles& files, const ExpectedData& expected);

// Hands every record of a file to `row`, in order, until it returns an error, which is then the
// result. What is handed over lives as long as the call. Errors as above.
absl::Status ReadParquetRows(const std::string& path, const FeatureNames& columns,
                             const std::function<absl::Status(const Elements& image, const Elements& label)>& row);

}  // namespace trainyard::engine
