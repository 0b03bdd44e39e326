// One entry of `layers:` as JSON → LayerSpec.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <set>
#include <string>

#include "trainer/config/field_errors.h"
#include "trainer/model/model_spec.h"

namespace trainyard::engine {

// Reads the entries of one model in order: default names count up as in Keras (dense, dense_1 …)
// and inputs must have come before.
class LayerReader {
 public:
  explicit LayerReader(FieldErrors& errors) : errors_(errors) {}

  // An entry is a kind's name ("flatten") or an object: {name: merge, inputs: [a, b], add: {}} with
  // exactly one kind; `name` and `inputs` are optional. Mistakes are added below `path`; the layer
  // then serves only for further reading.
  LayerSpec Read(const nlohmann::json& entry, const std::string& path);

 private:
  std::string DefaultName(const std::string& kind) const;
  void CheckName(const std::string& name, const std::string& path);

  FieldErrors& errors_;
  std::set<std::string, std::less<>> names_;
  std::string previous_ = kInputName;
};

}  // namespace trainyard::engine
