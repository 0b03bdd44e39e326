#include "trainer/backend/made_up_feeds.h"

#include <algorithm>
#include <cstdint>
#include <variant>

namespace trainyard::engine {

MadeUpFeeds::MadeUpFeeds(const Graph& graph) {
  for (const NodeId id : graph.inputs()) {
    const ValueSpec& spec = graph.node(id).outputs[0];
    const auto& op = std::get<InputOp>(graph.node(id).op);
    const int64_t elements = spec.shape.elements();
    const bool pixels = spec.dtype == DType::kF32 && op.u8_scale != 1.0f;
    const DType dtype = pixels ? DType::kU8 : spec.dtype;
    Buffer& buffer = buffers_.emplace_back(static_cast<size_t>(elements) * SizeOf(dtype));
    for (int64_t i = 0; i < elements; ++i) {
      const uint32_t random = static_cast<uint32_t>(i) * 2654435761u >> 8;
      if (dtype == DType::kU8) {
        buffer.as<uint8_t>()[i] = static_cast<uint8_t>(random);
      } else if (dtype == DType::kI32) {
        buffer.as<int32_t>()[i] = static_cast<int32_t>(random % static_cast<uint32_t>(std::max(op.limit, 1)));
      } else {
        buffer.as<float>()[i] = static_cast<float>(random & 1023) / 1024.0f;
      }
    }
    feeds_.push_back({graph.node(id).name, {dtype, spec.shape, buffer.data()}});
  }
}

}  // namespace trainyard::engine
