#include "trainer/data/stages/file_cache.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <vector>

#include "trainer/base/status_macros.h"
#include "trainer/data/store/store_dataset.h"
#include "trainer/data/store/store_writer.h"
#include "trainer/tfrecord/tfrecord.h"

namespace trainyard::engine {
namespace {

constexpr int64_t kCompared = 16;  // examples, spread over all of them
constexpr int64_t kShardBytes = int64_t{256} << 20;

// Tells data sets apart without reading all of them.
absl::StatusOr<std::string> Fingerprint(const Dataset& dataset) {
  const DatasetInfo& info = dataset.info();
  const int64_t compared = std::min(kCompared, info.examples);
  std::vector<int64_t> indices;
  for (int64_t i = 0; i < compared; ++i) indices.push_back(i * info.examples / compared);
  Batch batch;
  TY_RETURN_IF_ERROR(dataset.Read(indices, batch));
  const uint32_t crc = ExtendCrc32c(Crc32c({static_cast<const char*>(batch.x.data), batch.x.bytes()}),
                                    {static_cast<const char*>(batch.y.data), batch.y.bytes()});
  return fmt::format("cache of {}: {} examples, checksum {:08x} of {} of them", info.name, info.examples, crc, compared);
}

// The data that a model which fits `inner` expects of its cache.
ExpectedData ExpectedOf(const DatasetInfo& info, const StoreManifest& manifest) {
  return {.example_shape = info.example_shape,
          .classes = info.y_dtype == DType::kI32 ? manifest.label_maximum + 1 : 0,
          .target_shape = info.label_shape};
}

}  // namespace

absl::StatusOr<std::unique_ptr<Dataset>> CachedInFile(std::unique_ptr<Dataset> inner, const std::string& dir) {
  TY_ASSIGN_OR_RETURN(const std::string fingerprint, Fingerprint(*inner));
  const DatasetInfo& info = inner->info();
  std::error_code error;
  if (!std::filesystem::exists(dir, error)) {
    const auto each = static_cast<int64_t>(info.example_shape.elements() * SizeOf(info.x_dtype));
    const int64_t shards = std::min(info.examples, info.examples * each / kShardBytes + 1);
    const absl::Status written = WriteStore(*inner, {.dir = dir, .shards = shards, .source = fingerprint, .progress = {}});
    if (!written.ok() && !absl::IsAlreadyExists(written)) return written;
  }
  TY_ASSIGN_OR_RETURN(const StoreManifest manifest, ReadManifest(dir));
  if (manifest.source != fingerprint) {
    return absl::FailedPreconditionError(
        fmt::format("{} is a \"{}\", expected a \"{}\": the data or the stages before the cache changed; "
                    "remove the folder, or name another one",
                    dir, manifest.source, fingerprint));
  }
  return OpenStore(dir, {}, ExpectedOf(info, manifest));
}

}  // namespace trainyard::engine
