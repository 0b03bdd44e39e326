#include "trainer/report/graph_summary.h"

#include "trainer/report/proto/event.pb.h"

namespace trainyard::engine {

std::string SerializeGraph(std::span<const GraphSummaryNode> nodes) {
  // The version that TensorFlow 2 writes; TensorBoard only shows it.
  constexpr int kProducer = 1645;
  tensorboard::Graph graph;
  graph.mutable_versions()->set_producer(kProducer);
  for (const GraphSummaryNode& from : nodes) {
    tensorboard::Node* node = graph.add_node();
    node->set_name(from.name);
    node->set_op(from.op);
    node->set_device(from.device);
    for (const std::string& input : from.inputs) node->add_input(input);
    // TensorBoard shows this attribute as the sizes on the edges.
    auto& shapes = *(*node->mutable_attr())["_output_shapes"].mutable_list();
    for (const Shape& shape : from.output_shapes) {
      tensorboard::TensorShape* to = shapes.add_shape();
      for (int64_t extent : shape.extents()) to->add_dim()->set_size(extent);
    }
  }
  return graph.SerializeAsString();
}

}  // namespace trainyard::engine
