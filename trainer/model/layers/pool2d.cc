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

// maxPool2d or avgPool2d: the two differ in the node that they add.
class Pool2d final : public Layer {
 public:
  using AddNode = decltype(&GraphBuilder::MaxPool);

  Pool2d(std::string_view kind, AddNode add_node, const Window& window) : kind_(kind), add_node_(add_node), window_(window) {}
  absl::StatusOr<Value> Build(LayerBuilder& builder) const override {
    if (builder.InputShape().rank() != 4) return builder.WrongRank(kind_, kImages);
    return (builder.graph().*add_node_)(builder.name(), builder.input(), window_);
  }

 private:
  const std::string_view kind_;
  const AddNode add_node_;
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

LayerPointer ReadMaxPool2d(FieldReader& fields) {
  return std::make_shared<Pool2d>("maxPool2d", &GraphBuilder::MaxPool, ReadWindow(fields));
}
LayerPointer ReadAvgPool2d(FieldReader& fields) {
  return std::make_shared<Pool2d>("avgPool2d", &GraphBuilder::AvgPool, ReadWindow(fields));
}
LayerPointer ReadGlobalAveragePool2d(FieldReader&) { return std::make_shared<GlobalAveragePool2d>(); }

}  // namespace trainyard::engine
