#include "trainer/data/stages/normalize.h"

#include <fmt/format.h>

#include <string_view>
#include <utility>
#include <vector>

#include "trainer/base/status_macros.h"

namespace trainyard::engine {
namespace {

// y[i] = x[i] * factor[i] + offset[i] for the elements of one example.
template <typename T>
void MultiplyAdd(const T* x, const std::vector<float>& factor, const std::vector<float>& offset, float* y) {
  for (size_t i = 0; i < factor.size(); ++i) y[i] = static_cast<float>(x[i]) * factor[i] + offset[i];
}

class NormalizedDataset final : public Dataset {
 public:
  NormalizedDataset(std::unique_ptr<Dataset> inner, std::vector<float> factor, std::vector<float> offset)
      : inner_(std::move(inner)), info_(inner_->info()), factor_(std::move(factor)), offset_(std::move(offset)) {
    info_.x_dtype = DType::kF32;
    info_.x_scale = 1.0F;
  }
  const DatasetInfo& info() const override { return info_; }

  absl::Status Read(std::span<const int64_t> indices, Batch& batch) const override {
    TY_RETURN_IF_ERROR(inner_->Read(indices, batch));
    const absl::Time start = batch.stages.Now();
    const Tensor before = batch.ReplaceX(DType::kF32);
    batch.x_scale = info_.x_scale;
    const size_t each = factor_.size();
    float* to = batch.x.values<float>().data();
    for (size_t row = 0; row < indices.size(); ++row, to += each) {
      if (before.dtype == DType::kU8) {
        MultiplyAdd(before.values<uint8_t>().data() + row * each, factor_, offset_, to);
      } else {
        MultiplyAdd(before.values<float>().data() + row * each, factor_, offset_, to);
      }
    }
    batch.stages.Add("map", start);
    return absl::OkStatus();
  }

 private:
  const std::unique_ptr<Dataset> inner_;
  DatasetInfo info_;
  const std::vector<float> factor_;
  const std::vector<float> offset_;
};

absl::Status CheckLength(std::string_view field, size_t found, const Shape& shape) {
  const int64_t channels = shape.rank() > 0 ? shape[-1] : 1;
  if (found <= 1 || static_cast<int64_t>(found) == channels) return absl::OkStatus();
  return absl::InvalidArgumentError(fmt::format("normalize.{} has {} numbers, expected one, or one for each of the {} channels of {}",
                                                field, found, channels, shape.ToString()));
}

double At(const std::vector<double>& values, size_t channel, double fallback) {
  if (values.empty()) return fallback;
  return values.size() == 1 ? values[0] : values[channel];
}

}  // namespace

absl::StatusOr<std::unique_ptr<Dataset>> Normalized(std::unique_ptr<Dataset> inner, const NormalizeConfig& config) {
  const DatasetInfo& info = inner->info();
  TY_RETURN_IF_ERROR(CheckLength("mean", config.mean.size(), info.example_shape));
  TY_RETURN_IF_ERROR(CheckLength("std", config.std.size(), info.example_shape));
  const double scale = config.scale != 0 ? config.scale : static_cast<double>(info.x_scale);
  if (config.mean.empty() && config.std.empty() && static_cast<float>(scale) == info.x_scale) return inner;
  const auto elements = static_cast<size_t>(info.example_shape.elements());
  const auto channels = static_cast<size_t>(info.example_shape.rank() > 0 ? info.example_shape[-1] : 1);
  std::vector<float> factor(elements);
  std::vector<float> offset(elements);
  for (size_t i = 0; i < elements; ++i) {
    const double deviation = At(config.std, i % channels, 1.0);
    factor[i] = static_cast<float>(scale / deviation);
    offset[i] = static_cast<float>(-At(config.mean, i % channels, 0.0) / deviation);
  }
  return std::make_unique<NormalizedDataset>(std::move(inner), std::move(factor), std::move(offset));
}

}  // namespace trainyard::engine
