// Winograd's minimal filtering of some results by windows of some taps, F(results, taps), along one
// line of vectors (Lavin and Gray 2016, "Fast Algorithms for Convolutional Neural Networks"):
// y = A^T [(G g) (B^T x)] for taps g and a tile x of results + taps - 1 values. A tile of a plane
// is transformed along its columns, then along its rows. The points of F(2, 3) are 0, 1, -1 and
// infinity. F(2, 5) has 2 and -2 too, which its sums share with 1 and -1: even powers are equal,
// odd ones opposite. F(4, 3) has 1/2 and -2: 2 and -2 would round 1.6 times as much (Barabasz et
// al. 2020, "Error Analysis and Improving the Accuracy of Winograd Convolution for Deep Neural
// Networks").
#pragma once

#include "trainer/backend/cpu/kernels/vec.h"

namespace trainyard::engine {
namespace {

template <int kResults, int kTaps>
struct Winograd;

template <>
struct Winograd<2, 3> {
  static constexpr int kTile = 4;

  // B^T x
  static void Input(const V* x, V* d) {
    d[0] = x[0] - x[2];
    d[1] = x[1] + x[2];
    d[2] = x[2] - x[1];
    d[3] = x[1] - x[3];
  }
  // A^T m
  static void Output(const V* m, V* y) {
    y[0] = m[0] + m[1] + m[2];
    y[1] = m[1] - m[2] - m[3];
  }
  // G g
  static void Weights(const V* g, V* u) {
    const V ends = (g[0] + g[2]) * 0.5f;
    u[0] = g[0];
    u[1] = ends + g[1] * 0.5f;
    u[2] = ends - g[1] * 0.5f;
    u[3] = g[2];
  }
  // B m
  static void InputGradient(const V* m, V* dx) {
    dx[0] = m[0];
    dx[1] = m[1] - m[2] + m[3];
    dx[2] = m[1] + m[2] - m[0];
    dx[3] = -m[3];
  }
  // A dy
  static void OutputGradient(const V* dy, V* t) {
    t[0] = dy[0];
    t[1] = dy[0] + dy[1];
    t[2] = dy[0] - dy[1];
    t[3] = -dy[1];
  }
  // G^T p
  static void WeightGradient(const V* p, V* dw) {
    dw[0] = p[0] + (p[1] + p[2]) * 0.5f;
    dw[1] = (p[1] - p[2]) * 0.5f;
    dw[2] = p[3] + (p[1] + p[2]) * 0.5f;
  }
};

template <>
struct Winograd<2, 5> {
  static constexpr int kTile = 6;

  static void Input(const V* x, V* d) {
    const V even = x[4] - x[2] * 4.0f, odd = x[3] - x[1] * 4.0f;
    const V even_of_two = x[4] - x[2], odd_of_two = (x[3] - x[1]) * 2.0f;
    d[0] = x[0] * 4.0f - x[2] * 5.0f + x[4];
    d[1] = even + odd;
    d[2] = even - odd;
    d[3] = even_of_two + odd_of_two;
    d[4] = even_of_two - odd_of_two;
    d[5] = x[1] * 4.0f - x[3] * 5.0f + x[5];
  }
  static void Output(const V* m, V* y) {
    y[0] = m[0] + (m[1] + m[2]) + (m[3] + m[4]);
    y[1] = (m[1] - m[2]) + (m[3] - m[4]) * 2.0f + m[5];
  }
  static void Weights(const V* g, V* u) {
    const V even = (g[0] + g[2] + g[4]) * kOne, odd = (g[1] + g[3]) * kOne;
    const V even_of_two = (g[0] + g[2] * 4.0f + g[4] * 16.0f) * kTwo, odd_of_two = (g[1] * 2.0f + g[3] * 8.0f) * kTwo;
    u[0] = g[0] * kZero;
    u[1] = even + odd;
    u[2] = even - odd;
    u[3] = even_of_two + odd_of_two;
    u[4] = even_of_two - odd_of_two;
    u[5] = g[4];
  }
  static void InputGradient(const V* m, V* dx) {
    const V even = m[1] + m[2], odd = m[1] - m[2];
    const V even_of_two = m[3] + m[4], odd_of_two = (m[3] - m[4]) * 2.0f;
    dx[0] = m[0] * 4.0f;
    dx[1] = (m[5] - odd) * 4.0f - odd_of_two;
    dx[2] = m[0] * -5.0f - even * 4.0f - even_of_two;
    dx[3] = odd + odd_of_two - m[5] * 5.0f;
    dx[4] = m[0] + even + even_of_two;
    dx[5] = m[5];
  }
  static void OutputGradient(const V* dy, V* t) {
    t[0] = dy[0];
    t[1] = dy[0] + dy[1];
    t[2] = dy[0] - dy[1];
    t[3] = dy[0] + dy[1] * 2.0f;
    t[4] = dy[0] - dy[1] * 2.0f;
    t[5] = dy[1];
  }
  static void WeightGradient(const V* p, V* dw) {
    const V even = (p[1] + p[2]) * kOne, odd = (p[1] - p[2]) * kOne;
    const V even_of_two = (p[3] + p[4]) * kTwo, odd_of_two = (p[3] - p[4]) * kTwo;
    dw[0] = p[0] * kZero + even + even_of_two;
    dw[1] = odd + odd_of_two * 2.0f;
    dw[2] = even + even_of_two * 4.0f;
    dw[3] = odd + odd_of_two * 8.0f;
    dw[4] = even + even_of_two * 16.0f + p[5];
  }

 private:
  // What G scales the powers of 0, of 1 and -1, and of 2 and -2 by.
  static constexpr float kZero = 1.0f / 4, kOne = -1.0f / 6, kTwo = 1.0f / 24;
};

template <>
struct Winograd<4, 3> {
  static constexpr int kTile = 6;

  static void Input(const V* x, V* d) {
    const V odd = x[3] - x[1], even = x[4] - x[2];
    d[0] = x[0] + x[4] - x[2] * 2.0f + odd * 1.5f;
    d[1] = x[4] - x[1] + x[2] * 0.5f + x[3] * 2.5f;
    d[2] = x[4] + x[1] - x[2] * 2.5f + x[3] * 0.5f;
    d[3] = even + odd * 2.0f;
    d[4] = even - odd * 0.5f;
    d[5] = x[1] + x[5] - x[3] * 2.0f + even * 1.5f;
  }
  static void Output(const V* m, V* y) {
    const V even = m[1] + m[2], odd = m[1] - m[2];
    y[0] = m[0] + even + m[3] + m[4];
    y[1] = odd + m[3] * 0.5f - m[4] * 2.0f;
    y[2] = even + m[3] * 0.25f + m[4] * 4.0f;
    y[3] = odd + m[3] * 0.125f - m[4] * 8.0f + m[5];
  }
  static void Weights(const V* g, V* u) {
    const V ends = g[0] + g[2];
    u[0] = g[0];
    u[1] = (ends + g[1]) * kOne;
    u[2] = (g[1] - ends) * kOne;
    u[3] = (g[0] * 4.0f + g[1] * 2.0f + g[2]) * (-4.0f * kTwo);
    u[4] = (g[0] - g[1] * 2.0f + g[2] * 4.0f) * kTwo;
    u[5] = g[2];
  }
  static void InputGradient(const V* m, V* dx) {
    const V even = m[1] + m[2], odd = m[2] - m[1];
    dx[0] = m[0];
    dx[1] = odd - (m[0] * 1.5f + m[3] * 2.0f) + (m[4] * 0.5f + m[5]);
    dx[2] = m[1] * 0.5f - m[2] * 2.5f - (m[0] * 2.0f + m[3]) - (m[4] + m[5] * 1.5f);
    dx[3] = m[1] * 2.5f + m[2] * 0.5f + (m[0] * 1.5f + m[3] * 2.0f) - (m[4] * 0.5f + m[5] * 2.0f);
    dx[4] = m[0] + even + m[3] + m[4] + m[5] * 1.5f;
    dx[5] = m[5];
  }
  static void OutputGradient(const V* dy, V* t) {
    const V even = dy[0] + dy[2], odd = dy[1] + dy[3];
    t[0] = dy[0];
    t[1] = even + odd;
    t[2] = even - odd;
    t[3] = dy[0] + dy[1] * 0.5f + dy[2] * 0.25f + dy[3] * 0.125f;
    t[4] = dy[0] - dy[1] * 2.0f + dy[2] * 4.0f - dy[3] * 8.0f;
    t[5] = dy[3];
  }
  static void WeightGradient(const V* p, V* dw) {
    const V even = (p[1] + p[2]) * kOne, odd = (p[1] - p[2]) * kOne;
    const V half = p[3] * (-4.0f * kTwo), two = p[4] * kTwo;
    dw[0] = p[0] + odd + half * 4.0f + two;
    dw[1] = even + half * 2.0f - two * 2.0f;
    dw[2] = odd + half + two * 4.0f + p[5];
  }

 private:
  // What G scales the powers of 1 and -1, and of -2, by.
  static constexpr float kOne = 1.0f / 3, kTwo = 1.0f / 15;
};

// Calls work<results, taps>() for those of `args`.
template <typename Args, typename Work>
inline void VisitWinograd(const Args& args, Work&& work) {
  if (args.taps == 5) return work.template operator()<2, 5>();
  args.results == 2 ? work.template operator()<2, 3>() : work.template operator()<4, 3>();
}

}  // namespace
}  // namespace trainyard::engine
