// The way of examples from their files to the model (`spec.training.data.pipeline`), as plain data.
//
// Examples have numbers and can be read in any order, so the stages fall into three groups. The
// first gives an epoch its order (interleave, shuffle, shard). The second changes or keeps examples
// (map, cache). The third hands batches over (prefetch). Only the order within a group matters.
// Everything is a function of seed, epoch and step: a resumed run sees the examples of an
// undisturbed run.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

namespace trainyard::engine {

// `block` examples of each of `files` files in turn. A file that is used up makes place for the
// next one. 0 files: one after the other.
struct InterleaveConfig {
  int64_t files = 0;
  int64_t block = 1;
  friend bool operator==(const InterleaveConfig&, const InterleaveConfig&) = default;
};

// kBuffer: each example is drawn from the next `buffer` ones in reading order, which keeps reads
// near each other.
struct ShuffleConfig {
  enum class Kind : uint8_t { kNone, kAll, kBuffer };
  Kind kind = Kind::kAll;
  int64_t buffer = 0;  // kBuffer only; >= 1
  friend bool operator==(const ShuffleConfig&, const ShuffleConfig&) = default;
};

// The part of the data that each worker reads. kBatches: the workers cut each step's examples among
// themselves. kRanks: each worker keeps to one part of the data, in file order, and shuffles within
// it.
enum class ShardBy : uint8_t { kBatches, kRanks };

// Random changes of training images before the model sees them; see augment.h.
struct AugmentConfig {
  bool flip = false;
  int64_t shift = 0;  // pixels
  bool any() const { return flip || shift > 0; }
  friend bool operator==(const AugmentConfig&, const AugmentConfig&) = default;
};

// x * scale, then (x - mean) / std; see normalize.h.
struct NormalizeConfig {
  double scale = 0;          // 0: 1/255 for bytes, 1 for other types
  std::vector<double> mean;  // one for all or one for each channel; empty: 0
  std::vector<double> std;   // the same; empty: 1
  bool any() const { return scale != 0 || !mean.empty() || !std.empty(); }
  friend bool operator==(const NormalizeConfig&, const NormalizeConfig&) = default;
};

// Augmentation first (of training data only), then normalisation.
struct MapConfig {
  AugmentConfig augment;
  NormalizeConfig normalize;
  friend bool operator==(const MapConfig&, const MapConfig&) = default;
};

// Keeps examples as they are at this place.
struct CacheConfig {
  std::string file;  // a folder; "": in memory
  friend bool operator==(const CacheConfig&, const CacheConfig&) = default;
};

using ExampleStage = std::variant<MapConfig, CacheConfig>;

struct PrefetchConfig {
  int depth = 2;           // batches prepared ahead; 0: none, in the caller's thread
  bool automatic = false;  // `depth` grows while it helps; see prefetcher.h
  friend bool operator==(const PrefetchConfig&, const PrefetchConfig&) = default;
};

// As it stands: the pipeline of a job file that names none.
struct PipelineConfig {
  InterleaveConfig interleave;
  ShuffleConfig shuffle;  // of the training split
  ShardBy shard = ShardBy::kBatches;
  std::vector<ExampleStage> examples{CacheConfig{}};
  PrefetchConfig prefetch;

  // Examples are kept in memory as they come from their files.
  bool reads_into_memory() const {
    return !examples.empty() && std::holds_alternative<CacheConfig>(examples[0]) && std::get<CacheConfig>(examples[0]).file.empty();
  }
  friend bool operator==(const PipelineConfig&, const PipelineConfig&) = default;
};

}  // namespace trainyard::engine
