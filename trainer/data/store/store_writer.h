// Makes a dataset store (store_manifest.h) out of any data set.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "trainer/base/disk.h"
#include "trainer/data/dataset.h"

namespace trainyard::engine {

struct StoreOptions {
  std::string dir;  // of the new store; must not exist
  int64_t shards = 1;
  std::string source;  // what the manifest says of where the examples come from
  // Called now and then with how many examples are written.
  std::function<void(int64_t done)> progress;
  Disk& disk = RealDisk();
};

// Examples in order, in shards whose sizes differ by at most one. All of it is written and made
// durable in a folder beside `dir`, which then gets its name (staged_folder.h). So readers see all
// of a store or none. Several processes may write it at once. AlreadyExists when `dir` is there
// (also when it came in the meantime); InvalidArgument for fewer examples than shards.
absl::Status WriteStore(const Dataset& dataset, const StoreOptions& options);

}  // namespace trainyard::engine
