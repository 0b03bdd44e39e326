// The table of layers: the kinds of an entry of `layers:`. A new kind is a file of its own; its
// reader is declared and listed here.
#pragma once

#include <span>
#include <string_view>

#include "trainer/config/field_reader.h"
#include "trainer/model/layers/layer.h"

namespace trainyard::engine {

// Each reads the arguments of one kind, {units: 10}, and adds its mistakes to the reader's errors.
// The layer may then not be built.
LayerPointer ReadActivationLayer(FieldReader& fields);
LayerPointer ReadAdd(FieldReader& fields);
LayerPointer ReadAvgPool2d(FieldReader& fields);
LayerPointer ReadBatchNormalization(FieldReader& fields);
LayerPointer ReadBidirectional(FieldReader& fields);
LayerPointer ReadConv2d(FieldReader& fields);
LayerPointer ReadDense(FieldReader& fields);
LayerPointer ReadDropout(FieldReader& fields);
LayerPointer ReadEmbedding(FieldReader& fields);
LayerPointer ReadFlatten(FieldReader& fields);
LayerPointer ReadGlobalAveragePool2d(FieldReader& fields);
LayerPointer ReadGru(FieldReader& fields);
LayerPointer ReadLstm(FieldReader& fields);
LayerPointer ReadMaxPool2d(FieldReader& fields);
LayerPointer ReadReshape(FieldReader& fields);
LayerPointer ReadSimpleRnn(FieldReader& fields);

struct LayerKind {
  std::string_view name;  // in a job file
  LayerPointer (*read)(FieldReader&);
};
std::span<const LayerKind> LayerKinds();
// Null: there is none of that name.
const LayerKind* FindLayerKind(std::string_view name);

}  // namespace trainyard::engine
