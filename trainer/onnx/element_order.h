// In which order a network's flattened images have their elements.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "trainer/onnx/proto/onnx.pb.h"

namespace trainyard::engine {

// kPixelsFirst: row, column, channel, as ours. kChannelsFirst: channel, row, column.
enum class ElementOrder : uint8_t { kPixelsFirst, kChannelsFirst, kUnknown };

// Finds where a value comes from. An image of ONNX's own operators has its channels first, one
// behind a Transpose to [samples, height, width, channels] has them last.
class ElementOrders {
 public:
  // `graph` must outlive it.
  explicit ElementOrders(const onnx::GraphProto& graph);

  // Of the tensor `name` [samples, features], which holds images of `pixels` and `channels`.
  // kUnknown: it is not a flattened image, or one behind operators that are not known here.
  ElementOrder OrderOf(std::string_view name, int64_t pixels, int64_t channels) const;

 private:
  ElementOrder OrderOfInput(std::string_view name, int64_t pixels, int64_t channels) const;

  const onnx::GraphProto& graph_;
  std::map<std::string, const onnx::NodeProto*, std::less<>> writers_;
};

}  // namespace trainyard::engine
