#include <fmt/format.h>

#include "trainer/base/status_macros.h"
#include "trainer/model/layers/kinds.h"

namespace trainyard::engine {
namespace {

// Takes tokens.
class Embedding final : public Layer {
 public:
  explicit Embedding(FieldReader& fields) {
    input_dim_ = fields.Integer("inputDim", kUnits, 0);
    output_dim_ = fields.Integer("outputDim", kChannels);
    initializer_ = ReadInitializer(fields, "embeddingsInitializer", Initializer::kUniform);
  }

  absl::StatusOr<Value> Build(LayerBuilder& builder) const override {
    const Value ids = builder.input();
    const auto* input = std::get_if<InputOp>(&builder.graph().graph().node(ids.node).op);
    if (input == nullptr || input->limit == 0) {
      return absl::InvalidArgumentError("embedding takes tokens: the model's input with a `vocabulary`, found numbers");
    }
    const int64_t limit = input->limit;
    const int64_t tokens = input_dim_ == 0 ? limit : input_dim_;
    if (tokens < limit) {
      return absl::InvalidArgumentError(fmt::format("inputDim is {}, expected at least the input's vocabulary of {}", tokens, limit));
    }
    const Shape shape({tokens, output_dim_});
    TY_RETURN_IF_ERROR(CheckElements("the table", Product(shape.extents())));
    TY_ASSIGN_OR_RETURN(const Value table, builder.Parameter(builder.Name("embeddings"), shape, {initializer_}));
    return builder.graph().Embedding(builder.name(), ids, table);
  }

 private:
  int64_t input_dim_;  // rows of the table; 0: the input's vocabulary
  int64_t output_dim_;
  Initializer initializer_;
};

}  // namespace

LayerPointer ReadEmbedding(FieldReader& fields) { return std::make_shared<Embedding>(fields); }

}  // namespace trainyard::engine
