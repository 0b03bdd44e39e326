// A product of values in rows.
#pragma once

#include <cstddef>
#include <cstdint>

namespace trainyard::engine {

// c [rows][columns] = bias + (accumulate: c +) sum over k of a[row][k] b[k][column].
//
// Where the device multiplies in bfloat16, an operand may be of that already: a_rounded in place of
// a where a_k is 1, b_rounded in place of b where that is not transposed. Strides are the same.
struct RowsProduct {
  int64_t rows = 0, columns = 0, k = 0;
  const float* a = nullptr;  // a[row][k] at row * a_row + k * a_k
  int64_t a_row = 0, a_k = 1;
  const uint16_t* a_rounded = nullptr;
  const float* b = nullptr;  // b[k][column] at k * b_row + column, transposed: at column * b_row + k
  const uint16_t* b_rounded = nullptr;
  int64_t b_row = 0;
  bool b_transposed = false;
  const float* bias = nullptr;  // [columns] or null; not with accumulate
  bool accumulate = false;
  float* c = nullptr;
  int64_t c_row = 0;
  float* b_sums = nullptr;               // not transposed: [columns] becomes the sum of b over k; may be null
  const float* b_sum_weights = nullptr;  // [k], with b_sums: its rows times these are added; null: ones
};

// A panel of c, of all rows: columns [column, column + columns) at c[row * c_row].
struct ProductPanel {
  int64_t number = 0, column = 0, columns = 0;
  const float* c = nullptr;  // aligned to 64 bytes
  int64_t c_row = 0;
};

}  // namespace trainyard::engine
