// The index of a dataset store: manifest.json in the store's folder. A store is a data set as it
// comes out of its pipeline, cut into shards.
//
//   {"format": "trainyard-store", "version": 1, "source": "…", "examples": 9000,
//    "example": {"dtype": "U8", "shape": [28, 28, 1], "scale": 0.00392},
//    "label": {"dtype": "I32", "shape": [], "minimum": 0, "maximum": 9},
//    "shards": [{"file": "shard-00000.bin", "examples": 1125, "bytes": 886500, "crc32c": "0a1b2c3d"}, …]}
//
// A shard has no header: the elements of all its examples, then those of all its labels,
// little-endian, in C order. `source` is free text.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "trainer/tensor/dtype.h"
#include "trainer/tensor/shape.h"

namespace trainyard::engine {

inline constexpr std::string_view kManifestFile = "manifest.json";

struct StoreShard {
  std::string file;  // in the store's folder
  int64_t examples = 0;
  uint64_t bytes = 0;
  uint32_t crc32c = 0;  // of the whole file
};

struct StoreManifest {
  std::string source;
  int64_t examples = 0;
  DType x_dtype = DType::kU8;  // U8 or F32
  Shape example_shape;
  float x_scale = 1.0F;
  DType y_dtype = DType::kI32;  // I32: class numbers, of shape []; or F32
  Shape label_shape;
  int32_t label_minimum = 0;  // I32 only
  int32_t label_maximum = 0;
  std::vector<StoreShard> shards;

  uint64_t x_bytes() const { return static_cast<uint64_t>(example_shape.elements()) * SizeOf(x_dtype); }
  uint64_t y_bytes() const { return static_cast<uint64_t>(label_shape.elements()) * SizeOf(y_dtype); }
};

std::string ManifestJson(const StoreManifest& manifest);
// InvalidArgument has `name` and the field. It says that the text is not a manifest, its counts or
// sizes do not fit together, or a file name leaves the folder.
absl::StatusOr<StoreManifest> ParseManifest(std::string_view text, std::string_view name);

}  // namespace trainyard::engine
