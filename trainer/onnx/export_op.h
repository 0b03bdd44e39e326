// How each op becomes ONNX nodes: one overload for each op that an inference graph may have, one
// file for each family. Operators are those of opset 17, in the ONNX project's
// docs/Operators.md.
//
// A product takes the bias behind it along, and a recurrent node the products of its inputs: ONNX
// has one operator for them. So the exporter of a bias finds its value set, and the exporter of a
// recurrent layer's products leaves them to that layer.
#pragma once

#include "trainer/onnx/graph_export.h"

namespace trainyard::engine {

// Sources (source_exports.cc).
void ExportOp(const InputOp& op, NodeId id, GraphExport& out);
void ExportOp(const ParameterOp& op, NodeId id, GraphExport& out);
void ExportOp(const StateOp& op, NodeId id, GraphExport& out);
// Products (product_exports.cc).
void ExportOp(const DenseOp& op, NodeId id, GraphExport& out);
void ExportOp(const BiasOp& op, NodeId id, GraphExport& out);
void ExportOp(const EmbeddingOp& op, NodeId id, GraphExport& out);
// Images (image_exports.cc).
void ExportOp(const Conv2dOp& op, NodeId id, GraphExport& out);
void ExportOp(const MaxPoolOp& op, NodeId id, GraphExport& out);
void ExportOp(const AvgPoolOp& op, NodeId id, GraphExport& out);
void ExportOp(const BatchNormOp& op, NodeId id, GraphExport& out);
// Element by element, and shapes (element_exports.cc).
void ExportOp(const ActivationOp& op, NodeId id, GraphExport& out);
void ExportOp(const AddOp& op, NodeId id, GraphExport& out);
void ExportOp(const SoftmaxOp& op, NodeId id, GraphExport& out);
void ExportOp(const ConcatOp& op, NodeId id, GraphExport& out);
void ExportOp(const ReshapeOp& op, NodeId id, GraphExport& out);
void ExportOp(const IdentityOp& op, NodeId id, GraphExport& out);
void ExportOp(const DropoutOp& op, NodeId id, GraphExport& out);
// Sequences (recurrent_exports.cc).
void ExportOp(const RecurrentOp& op, NodeId id, GraphExport& out);

}  // namespace trainyard::engine
