// A request for predictions and its answer, whatever protocol they come and go by.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "trainer/serve/input_tensor.h"
#include "trainer/serve/sequence_request.h"

namespace trainyard::engine {

struct InferRequest {
  std::string id;                         // given back with the answer
  std::optional<absl::Duration> timeout;  // the client's own; absent: the server's
  std::vector<InputTensor> inputs;
  bool binary_output = false;  // as bytes behind the JSON
  std::optional<SequenceRequest> sequence;
  int classification = 0;  // > 0: this many of the likeliest classes in place of their probabilities
};

// What a model said: `values` has `examples` rows of the signature's output.
struct InferAnswer {
  int64_t version = 0;
  int64_t examples = 0;
  std::vector<float> values;
};

}  // namespace trainyard::engine
