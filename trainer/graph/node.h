// Nodes of a graph and the values between them.
#pragma once

#include <string>
#include <vector>

#include "trainer/graph/op.h"
#include "trainer/tensor/dtype.h"
#include "trainer/tensor/shape.h"

namespace trainyard::engine {

// A node's place in its graph's order of execution.
using NodeId = int;

// Output `output` of node `node`.
struct Value {
  NodeId node = -1;
  int output = 0;

  bool valid() const { return node >= 0; }
  friend auto operator<=>(const Value&, const Value&) = default;
};

// The properties of a value that are known before anything runs. Its place and order in memory are
// the backend's to choose.
struct ValueSpec {
  DType dtype = DType::kF32;  // kF32 stands for "the backend's real numbers": the reference backend can compute them in f64
  Shape shape;                // all extents, the batch included
  // Axis 0 counts the samples of the batch, so a backend may store the value in panels of samples.
  // False for parameters, their gradients and scalars: those are row-major everywhere.
  bool batched = false;
  // A batched value that lies row-major, not in the backend's own order. Only a backend that has
  // laid out its graph sets it (Backend::Rewrite). Builders of graphs leave it false.
  bool row_major = false;
  // A batched value of reals whose elements are rounded to 16 bits where they are stored: to the
  // kind that the backend's precision names, or one that op and output call for. Only a backend
  // sets it (backend/narrow_values.h, and for values in rows backend/cpu/narrow_rows.h).
  bool narrow = false;

  friend bool operator==(const ValueSpec&, const ValueSpec&) = default;
};

// Of an element in memory.
inline int64_t ElementBytes(const ValueSpec& spec) { return static_cast<int64_t>(spec.narrow ? sizeof(uint16_t) : SizeOf(spec.dtype)); }

struct Node {
  std::string name;  // unique in the graph, '/'-separated: "conv1", "conv1/kernel", "gradients/conv1/weights"
  Op op;
  std::vector<Value> inputs;       // of earlier nodes
  std::vector<ValueSpec> outputs;  // at least one
};

}  // namespace trainyard::engine
