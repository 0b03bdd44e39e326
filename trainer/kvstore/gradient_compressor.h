// A worker's gradients as bfloat16, with error feedback (docs/collectives.md, "Half the bytes").
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "trainer/tensor/buffer.h"
#include "trainer/tensor/compression.h"
#include "trainer/tensor/parameter_set.h"
#include "trainer/tensor/touched_rows.h"

namespace trainyard::engine {

// What a step sends of an element is its gradient plus the residual, rounded. The residual is what
// that rounding has taken off, and is added in the next step. It has an element for each of the
// parameter's: no bit depends on how a tensor is cut into parts.
//
// Where a gradient lists the rows that it touches, only those take part: the others are sent as +0
// and keep their residual until they are touched.
//
// Not thread-safe for one key; different keys are independent. With Compression::kNone it is empty
// and has no memory.
class GradientCompressor {
 public:
  GradientCompressor(std::span<const ParameterSpec> specs, Compression compression);

  // Of one for these specs.
  static int64_t BytesFor(std::span<const ParameterSpec> specs, Compression compression);

  // Whether gradients of `key` travel as bfloat16.
  bool Compresses(int key) const { return !tensors_.empty() && tensors_[key].elements > 0; }
  // The gradient of a key that it compresses, as bytes of bfloat16: two for each element. They stay
  // as they are until the next call for this key.
  std::span<const std::byte> Compress(int key, const GradientView& gradient);
  // All residuals are zero, as at first.
  void Forget();

 private:
  struct Tensor {
    size_t elements = 0;  // 0: it travels as it is
    size_t row_elements = 1;
    size_t residual_at = 0;  // bytes, in memory_
    size_t sent_at = 0;
    bool all_sent = false;             // by the last call, not some rows alone:
    std::vector<int32_t> rows_sent{};  // these; all others are +0
  };
  std::span<float> ResidualOf(const Tensor& tensor) {
    return {reinterpret_cast<float*>(memory_.data() + tensor.residual_at), tensor.elements};
  }
  std::span<std::byte> SentOf(const Tensor& tensor) { return {memory_.data() + tensor.sent_at, 2 * tensor.elements}; }
  // Makes what the last call has left there +0.
  void Clear(Tensor& tensor);

  std::vector<Tensor> tensors_;  // by key
  Buffer memory_;
};

}  // namespace trainyard::engine
