// The first act of a kernel that fills a gradient [rows, ..] row by row.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "trainer/tensor/touched_rows.h"

namespace trainyard::engine {

// Makes the gradient zero and lists the rows of `ids`, which the kernel is about to add to. With
// `touched` (KernelContext::touched_rows) the memory holds the gradient of the step before, so that
// only its rows need to be cleared.
template <typename T>
void BeginRowGradient(std::span<const int32_t> ids, std::span<T> gradient, size_t row_elements, TouchedRows* touched) {
  if (touched == nullptr || touched->all()) {
    std::ranges::fill(gradient, T{0});
  } else {
    for (const int32_t row : touched->ids()) std::ranges::fill(gradient.subspan(row * row_elements, row_elements), T{0});
  }
  if (touched != nullptr) touched->Touch(ids);
}

}  // namespace trainyard::engine
