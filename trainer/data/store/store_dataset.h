// A dataset store (store_manifest.h) as a data set.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "trainer/data/dataset.h"
#include "trainer/data/example_range.h"
#include "trainer/data/store/store_manifest.h"

namespace trainyard::engine {

absl::StatusOr<StoreManifest> ReadManifest(const std::string& dir);

// Opens the store in `dir`. Every shard must be there with its size before anything is trained. Its
// checksum is checked at the first read from it. So a worker that reads some of the shards looks at
// those only. DataLoss names the shard. Shards are the data set's files.
absl::StatusOr<std::unique_ptr<Dataset>> OpenStore(const std::string& dir, ExampleRange range, const ExpectedData& expected);

// Reads every shard and compares sizes, checksums and labels with the manifest; the error names the
// first shard that differs.
absl::Status VerifyStore(const std::string& dir);

}  // namespace trainyard::engine
