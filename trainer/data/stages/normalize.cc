#include "trainer/data/stages/normalize.h"

#include <fmt/format.h>

#include <algorithm>
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

absl::StatusOr<std::optional<Normalization>> NormalizationOf(const NormalizeConfig& config, float x_scale, const Shape& shape) {
  TY_RETURN_IF_ERROR(CheckLength("mean", config.mean.size(), shape));
  TY_RETURN_IF_ERROR(CheckLength("std", config.std.size(), shape));
  const double scale = config.scale != 0 ? config.scale : static_cast<double>(x_scale);
  if (config.mean.empty() && config.std.empty() && static_cast<float>(scale) == x_scale) return std::nullopt;
  Normalization normalization;
  for (size_t channel = 0; channel < std::max({config.mean.size(), config.std.size(), size_t{1}}); ++channel) {
    const double deviation = At(config.std, channel, 1.0);
    normalization.factor.push_back(static_cast<float>(scale / deviation));
    normalization.offset.push_back(static_cast<float>(-At(config.mean, channel, 0.0) / deviation));
  }
  return normalization;
}

absl::StatusOr<std::unique_ptr<Dataset>> Normalized(std::unique_ptr<Dataset> inner, const NormalizeConfig& config) {
  const DatasetInfo& info = inner->info();
  TY_ASSIGN_OR_RETURN(const std::optional<Normalization> each, NormalizationOf(config, info.x_scale, info.example_shape));
  if (!each) return inner;
  const auto elements = static_cast<size_t>(info.example_shape.elements());
  const size_t channels = each->factor.size();
  std::vector<float> factor(elements);
  std::vector<float> offset(elements);
  for (size_t i = 0; i < elements; ++i) {
    factor[i] = each->factor[i % channels];
    offset[i] = each->offset[i % channels];
  }
  return std::make_unique<NormalizedDataset>(std::move(inner), std::move(factor), std::move(offset));
}

}  // namespace trainyard::engine
