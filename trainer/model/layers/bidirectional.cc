#include <fmt/format.h>

#include <array>
#include <nlohmann/json.hpp>

#include "trainer/base/status_macros.h"
#include "trainer/model/layers/kinds.h"
#include "trainer/model/layers/recurrent.h"

namespace trainyard::engine {
namespace {

enum class Merge : uint8_t { kConcat, kSum };

// A recurrent layer and a copy of it that goes backwards, with parameters of their own below
// "forward" and "backward".
class Bidirectional final : public Layer {
 public:
  explicit Bidirectional(FieldReader& fields) {
    merge_ = fields.Choice<Merge>("mergeMode", {{"concat", Merge::kConcat}, {"sum", Merge::kSum}}, Merge::kConcat);
    if (const nlohmann::json* inner = fields.Require("layer", "an object such as {lstm: {units: 200}}")) ReadInner(*inner, fields);
  }

  absl::StatusOr<Value> Build(LayerBuilder& builder) const override {
    TY_ASSIGN_OR_RETURN(const Value forward, Unroll(layer_, builder.Name("forward"), /*reverse=*/false, builder));
    TY_ASSIGN_OR_RETURN(const Value backward, Unroll(layer_, builder.Name("backward"), /*reverse=*/true, builder));
    const std::array parts = {forward, backward};
    if (merge_ == Merge::kSum) return builder.graph().Add(builder.name(), parts);
    return builder.graph().Concat(builder.name(), parts);
  }

  std::string_view why_not_stepwise() const override { return "is bidirectional"; }

 private:
  void ReadInner(const nlohmann::json& inner, FieldReader& fields) {
    using Named = std::pair<std::string_view, Cell>;
    static constexpr std::array kCells{Named{"lstm", Cell::kLstm}, Named{"gru", Cell::kGru}, Named{"simpleRnn", Cell::kSimpleRnn}};
    FieldReader inner_fields = fields.Inside("layer", inner);
    int found = 0;
    for (const auto& [name, cell] : kCells) {
      const nlohmann::json* arguments = inner_fields.Get(name);
      if (arguments == nullptr) continue;
      ++found;
      FieldReader cell_fields = inner_fields.Inside(name, *arguments);
      layer_ = ReadRecurrent(cell_fields, cell);
      if (layer_.stateful) cell_fields.Error("stateful", "found true; a bidirectional layer sees each batch whole, so it carries no state");
      if (layer_.go_backwards) cell_fields.Error("goBackwards", "found true; a bidirectional layer goes both ways already");
      cell_fields.RefuseOthers();
    }
    inner_fields.RefuseOthers();
    if (found != 1) fields.Error("layer", fmt::format("found {} recurrent layers, expected exactly one of lstm, gru and simpleRnn", found));
  }

  RecurrentFields layer_;
  Merge merge_;
};

}  // namespace

LayerPointer ReadBidirectional(FieldReader& fields) { return std::make_shared<Bidirectional>(fields); }

}  // namespace trainyard::engine
