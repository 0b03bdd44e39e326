// Changes to training images that a label survives: the usual ones of CIFAR-10 (He et al. 2016).
#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "trainer/data/dataset.h"
#include "trainer/data/pipeline_config.h"

namespace trainyard::engine {

// `inner` with every image flipped left to right in half of the cases (flip), then moved by up to
// `shift` pixels in each direction. Black comes in at the borders: it is the crop of an image
// padded by `shift`. The changes of an example are a function of seed, Batch::epoch and the
// example's index alone, so a resumed run sees the same images. InvalidArgument: examples are not
// images [height, width, channels], or smaller than the shift.
absl::StatusOr<std::unique_ptr<Dataset>> Augmented(std::unique_ptr<Dataset> inner, const AugmentConfig& config, uint64_t seed);

}  // namespace trainyard::engine
