// The rows of a gradient [rows, ..] that may differ from zero. An embedding's backward pass knows
// them, and spares everyone after it the other rows. It is TensorFlow's IndexedSlices, but with the
// dense values kept.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace trainyard::engine {

// Either every row may differ from zero (at first), or the listed ones alone: then all others are
// +0. Code that ignores the list is still right, as the gradient itself stays dense. Not
// thread-safe: it goes with its gradient.
class TouchedRows {
 public:
  bool all() const { return all_; }
  // Ascending, each once; none where all().
  std::span<const int32_t> ids() const { return std::span(ids_).first(count_); }

  void SetAll() {
    all_ = true;
    count_ = 0;
  }
  // Makes room for Touch with `ids` ids: only the first call with so many allocates.
  void Reserve(size_t ids);
  // Lists the rows of `ids`, which come in any order and may repeat; as many as were reserved, at
  // most.
  void Touch(std::span<const int32_t> ids);

 private:
  bool all_ = true;
  size_t count_ = 0;
  std::vector<int32_t> ids_;
};

// A gradient on its way from backward pass to optimizer. It has all values and, where known, the
// list of the rows that may differ from zero. Both stay owned elsewhere.
struct GradientView {
  GradientView() = default;
  GradientView(std::span<const float> all_values) : values(all_values) {}  // NOLINT(google-explicit-constructor): a dense gradient is one
  GradientView(std::span<float> all_values) : values(all_values) {}        // NOLINT(google-explicit-constructor)
  GradientView(std::span<const float> all_values, const TouchedRows& touched) : values(all_values) {
    if (!touched.all()) rows = touched.ids();
  }

  std::span<const float> values;
  std::optional<std::span<const int32_t>> rows;  // ascending, each once
  int addends = 1;                               // devices whose gradients (or next values) are summed in it
};

}  // namespace trainyard::engine
