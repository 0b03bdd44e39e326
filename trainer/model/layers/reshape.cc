#include <fmt/format.h>

#include <algorithm>

#include "trainer/base/status_macros.h"
#include "trainer/model/layers/kinds.h"

namespace trainyard::engine {
namespace {

class Reshape final : public Layer {
 public:
  explicit Reshape(FieldReader& fields)
      : target_(fields.IntegerList("targetShape", {.min = -1, .max = kUnits.max}, 1, Shape::kMaxRank - 1)) {
    if (std::ranges::count(target_, -1) > 1) fields.Error("targetShape", "found more than one -1, expected at most one");
    if (std::ranges::count(target_, 0) > 0) fields.Error("targetShape", "found 0, expected extents >= 1, or -1 for the rest");
  }

  absl::StatusOr<Value> Build(LayerBuilder& builder) const override {
    const Shape input = builder.InputShape();
    const int64_t available = input.elements() / input[0];
    std::vector<int64_t> extents{input[0]};
    int64_t known = 1;
    for (const int64_t extent : target_) {
      if (extent >= 0) TY_RETURN_IF_ERROR(CheckElements("the target shape", static_cast<double>(known) * static_cast<double>(extent)));
      known *= extent < 0 ? 1 : extent;
    }
    for (const int64_t extent : target_) extents.push_back(extent < 0 ? (known == 0 ? 0 : available / known) : extent);
    if (Product(std::span(extents).subspan(1)) != static_cast<double>(available)) {
      return absl::InvalidArgumentError(fmt::format("targetShape {} does not hold the {} elements of input {}", Shape(target_).ToString(),
                                                    available, ExampleText(input)));
    }
    return builder.graph().Reshape(builder.name(), builder.input(), Shape(extents));
  }

 private:
  const std::vector<int64_t> target_;  // without the batch; one extent may be -1: the rest
};

}  // namespace

LayerPointer ReadReshape(FieldReader& fields) { return std::make_shared<Reshape>(fields); }

}  // namespace trainyard::engine
