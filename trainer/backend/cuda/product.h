// Products of matrices as a device is asked for them, and the same in the words of BLAS.
#pragma once

#include <cstdint>

#include "trainer/backend/cuda/elements.h"

namespace trainyard::engine::cuda {

// Row-major rows of `stride` elements. Transposed: element (i, j) lies at j * stride + i.
struct Operand {
  int64_t stride = 0;
  bool transposed = false;
  friend bool operator==(const Operand&, const Operand&) = default;
};

inline constexpr int kMostAlignment = 64;
// What is left of that where a pointer lies a multiple of `bytes` behind an aligned one.
inline int AlignmentBehind(int64_t bytes) {
  int alignment = kMostAlignment;
  while (bytes % alignment != 0) alignment /= 2;
  return alignment;
}

// c [m, n] = a [m, k] b [k, n] + bias [n] (+ c with `onto`). c is row-major, in rows of c_stride.
struct ProductShape {
  int64_t m = 0, n = 0, k = 0;
  Operand a, b;
  int64_t c_stride = 0;
  bool bias = false;
  bool onto = false;
  Element takes = Element::kFloat32;  // a and b
  Element makes = Element::kFloat32;  // c, which takes a bias only as f32
  bool tf32 = false;                  // a and b may be rounded to tf32
  int alignment = kMostAlignment;     // of a, b and c, in bytes
  friend bool operator==(const ProductShape&, const ProductShape&) = default;
};

// C [rows, columns] = op(A) op(B), all column-major. A row-major matrix is its transposed one
// column-major, so A is b and B is a.
struct BlasProduct {
  int64_t rows = 0, columns = 0, depth = 0;
  bool transpose_a = false, transpose_b = false;
  int64_t lda = 0, ldb = 0, ldc = 0;

  // Of A as it is stored.
  int64_t a_rows() const { return transpose_a ? depth : rows; }
  int64_t a_columns() const { return transpose_a ? rows : depth; }
  int64_t b_rows() const { return transpose_b ? columns : depth; }
  int64_t b_columns() const { return transpose_b ? depth : columns; }
};

inline BlasProduct ColumnMajor(const ProductShape& shape) {
  return {.rows = shape.n,
          .columns = shape.m,
          .depth = shape.k,
          .transpose_a = shape.b.transposed,
          .transpose_b = shape.a.transposed,
          .lda = shape.b.stride,
          .ldb = shape.a.stride,
          .ldc = shape.c_stride};
}

}  // namespace trainyard::engine::cuda
