// maxPool2d, avgPool2d and globalAveragePool2d.
#include "trainer/base/status_macros.h"
#include "trainer/model/layers/kinds.h"

namespace trainyard::engine {
namespace {

constexpr std::string_view kImages = "[height, width, channels]";

// Strides default to the pool size.
Window ReadWindow(FieldReader& fields) {
  Window window;
  window.size = ReadPair(fields, "poolSize", std::array<int32_t, 2>{2, 2});
  window.stride = ReadPair(fields, "strides", window.size);
  window.padding = ReadPadding(fields);
  return window;
}

class MaxPool2d final : public Layer {
 public:
  explicit MaxPool2d(const Window& window) : window_(window) {}
  absl::StatusOr<Value> Build(LayerBuilder& builder) const override {
    if (builder.InputShape().rank() != 4) return builder.WrongRank("maxPool2d", kImages);
    return builder.graph().MaxPool(builder.name(), builder.input(), window_);
  }

 private:
  const Window window_;
};

class AvgPool2d final : public Layer {
 public:
  explicit AvgPool2d(const Window& window) : window_(window) {}
  absl::StatusOr<Value> Build(LayerBuilder& builder) const override {
    if (builder.InputShape().rank() != 4) return builder.WrongRank("avgPool2d", kImages);
    return builder.graph().AvgPool(builder.name(), builder.input(), window_);
  }

 private:
  const Window window_;
};

class GlobalAveragePool2d final : public Layer {
 public:
  absl::StatusOr<Value> Build(LayerBuilder& builder) const override {
    const Shape input = builder.InputShape();
    if (input.rank() != 4) return builder.WrongRank("globalAveragePool2d", kImages);
    const Window whole{.size = {static_cast<int32_t>(input[1]), static_cast<int32_t>(input[2])}};
    TY_ASSIGN_OR_RETURN(const Value pooled, builder.graph().AvgPool(builder.name(), builder.input(), whole));
    return builder.graph().Flatten(builder.Name("flatten"), pooled);
  }
};

}  // namespace

LayerPointer ReadMaxPool2d(FieldReader& fields) { return std::make_shared<MaxPool2d>(ReadWindow(fields)); }
LayerPointer ReadAvgPool2d(FieldReader& fields) { return std::make_shared<AvgPool2d>(ReadWindow(fields)); }
LayerPointer ReadGlobalAveragePool2d(FieldReader&) { return std::make_shared<GlobalAveragePool2d>(); }

}  // namespace trainyard::engine
