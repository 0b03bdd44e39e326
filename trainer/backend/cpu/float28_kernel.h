// One row times weights of 28 bits (float28_weights.h), as a plain function over plain arguments.
#pragma once

#include <stdint.h>

namespace trainyard::engine {

inline constexpr int kFloat28Columns = 32;      // of a panel
inline constexpr int kFloat28VectorBytes = 56;  // 16 weights
inline constexpr int kFloat28Slack = 8;         // bytes behind the last weights that are read
inline constexpr uint32_t kFloat28Least = 112;  // exponent of the smallest weight, 2^-15, as a float has it

// A row of a panel whose weights are floats.
struct Float28WideRow {
  int64_t k;
  float weights[kFloat28Columns];
};

// y[column] = act(bias[column] + the sum over k of x[k] times the weight), for panels [begin, end).
// One chain of multiply-adds for each result, from the bias on, in the order of k: the bits of
// conv_rows (kernels.h).
struct Float28Args {
  const float* x = nullptr;
  int64_t k = 0, columns = 0;
  const uint8_t* weights = nullptr;  // [panels][k][2][kFloat28VectorBytes]
  const float* scales = nullptr;     // [panels]: what a weight of 1 stands for, a power of two
  const float* bias = nullptr;       // [panels][kFloat28Columns], over the scale; aligned to 64 bytes
  // Of each panel in the order of k; those of panel p lie from wide_begin[p] to wide_begin[p + 1].
  const Float28WideRow* wide = nullptr;
  const int64_t* wide_begin = nullptr;
  bool relu = false;
  float* y = nullptr;
  int64_t begin = 0, end = 0;
};
using Float28Product = void (*)(const Float28Args&);

}  // namespace trainyard::engine
