#include "trainer/data/stages/augment.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "trainer/data/random.h"

namespace trainyard::engine {
namespace {

constexpr uint64_t kAugmentStream = 0x617567;

// How one image is changed: pixel (row, column) comes from (row + down, column + right) of the
// image, mirrored or not.
struct Change {
  bool mirrored = false;
  int64_t down = 0;
  int64_t right = 0;
};

class AugmentedDataset final : public Dataset {
 public:
  AugmentedDataset(std::unique_ptr<Dataset> inner, const AugmentConfig& config, uint64_t seed)
      : inner_(std::move(inner)), config_(config), seed_(seed) {}

  const DatasetInfo& info() const override { return inner_->info(); }

  absl::Status Read(std::span<const int64_t> indices, Batch& batch) const override {
    if (absl::Status status = inner_->Read(indices, batch); !status.ok()) return status;
    const absl::Time start = batch.stages.Now();
    const Shape& shape = info().example_shape;
    const size_t pixel = static_cast<size_t>(shape[2]) * SizeOf(info().x_dtype);
    const size_t bytes = static_cast<size_t>(shape[0] * shape[1]) * pixel;
    const Tensor before = batch.ReplaceX(info().x_dtype);
    for (size_t row = 0; row < indices.size(); ++row) {
      Apply(ChangeOf(batch.epoch, indices[row]), shape[0], shape[1], pixel, static_cast<const std::byte*>(before.data) + row * bytes,
            static_cast<std::byte*>(batch.x.data) + row * bytes);
    }
    batch.stages.Add("map", start);
    return absl::OkStatus();
  }

 private:
  Change ChangeOf(int64_t epoch, int64_t index) const {
    Random random(Random(seed_, kAugmentStream + static_cast<uint64_t>(epoch)).Next(), static_cast<uint64_t>(index));
    const auto places = static_cast<uint64_t>(2 * config_.shift + 1);
    Change change;
    change.mirrored = random.Below(2) == 1 && config_.flip;
    change.down = static_cast<int64_t>(random.Below(places)) - config_.shift;
    change.right = static_cast<int64_t>(random.Below(places)) - config_.shift;
    return change;
  }

  static void Apply(const Change& change, int64_t height, int64_t width, size_t pixel, const std::byte* from, std::byte* to) {
    const int64_t first = std::clamp<int64_t>(-change.right, 0, width);  // columns of the result that come from the image: [first, last)
    const int64_t last = std::clamp<int64_t>(width - change.right, first, width);
    for (int64_t y = 0; y < height; ++y, to += width * pixel) {
      const int64_t source_y = y + change.down;
      if (source_y < 0 || source_y >= height) {
        std::memset(to, 0, width * pixel);
        continue;
      }
      const std::byte* const row = from + static_cast<size_t>(source_y * width) * pixel;
      std::memset(to, 0, first * pixel);
      std::memset(to + last * pixel, 0, (width - last) * pixel);
      if (!change.mirrored) {
        std::memcpy(to + first * pixel, row + (first + change.right) * pixel, (last - first) * pixel);
        continue;
      }
      for (int64_t x = first; x < last; ++x) std::memcpy(to + x * pixel, row + (width - 1 - x - change.right) * pixel, pixel);
    }
  }

  const std::unique_ptr<Dataset> inner_;
  const AugmentConfig config_;
  const uint64_t seed_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Dataset>> Augmented(std::unique_ptr<Dataset> inner, const AugmentConfig& config, uint64_t seed) {
  const Shape& shape = inner->info().example_shape;
  if (shape.rank() != 3) {
    return absl::InvalidArgumentError(
        fmt::format("augment takes images [height, width, channels], found examples of shape {}", shape.ToString()));
  }
  if (config.shift < 0 || config.shift >= std::min(shape[0], shape[1])) {
    return absl::InvalidArgumentError(fmt::format("augment.shift is {}, expected at least 0 and less than the {} x {} pixels of an image",
                                                  config.shift, shape[0], shape[1]));
  }
  return std::make_unique<AugmentedDataset>(std::move(inner), config, seed);
}

}  // namespace trainyard::engine
