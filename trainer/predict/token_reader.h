// Reads tokens into the state of a language model, many at a time.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "trainer/backend/backend.h"
#include "trainer/backend/executor.h"
#include "trainer/model/model_spec.h"
#include "trainer/tensor/parameter_set.h"

namespace trainyard::engine {

// How many tokens of a row are read at a time, the most first.
inline constexpr std::array<int64_t, 3> kReadLengths = {32, 8, 1};
// The longest of them that is at most `tokens`, which is at least 1.
int64_t ReadLengthFor(int64_t tokens);

// What follows the tokens is not computed: the layers behind the last one that carries a state are
// left out. Not thread-safe. Parameters and backend must outlive it.
class TokenReader {
 public:
  // `one_step` is a spec from OneStepOf.
  TokenReader(const ModelSpec& one_step, const ParameterSet& parameters, Backend& backend)
      : spec_(one_step), parameters_(parameters), backend_(backend) {}

  // Each of the rows of `state` reads `length` tokens, one of kReadLengths; `tokens` are
  // [rows][length]. `state` is that of the one-step graph for as many rows, and gets the bits that
  // reading one token after the other leaves.
  absl::Status Read(int64_t rows, int64_t length, std::span<const int32_t> tokens, ParameterSet& state);

 private:
  absl::StatusOr<Executor*> ExecutorFor(int64_t rows, int64_t length);

  const ModelSpec spec_;
  const ParameterSet& parameters_;
  Backend& backend_;
  std::map<std::pair<int64_t, int64_t>, std::unique_ptr<Executor>> executors_;  // by rows and length
};

}  // namespace trainyard::engine
