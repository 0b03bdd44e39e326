// Named F32 tensors in one contiguous buffer. A parameter's index is its one key: bucket slot,
// kvstore key, optimizer slot, checkpoint entry.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "trainer/tensor/buffer.h"
#include "trainer/tensor/shape.h"
#include "trainer/tensor/tensor.h"
#include "trainer/tensor/touched_rows.h"

namespace trainyard::engine {

// A parameter as its model describes it. `name` is "<layer>/kernel", "<layer>/bias" …, unique in
// its model. A parameter that is not trainable (moving statistics) gets no gradient; it is stored
// and checkpointed with the others.
struct ParameterSpec {
  std::string name;
  Shape shape;
  bool trainable = true;

  // Elements of one of the rows of [rows, ..]; of a scalar 1.
  int64_t row_elements() const {
    int64_t product = 1;
    for (int axis = 1; axis < shape.rank(); ++axis) product *= shape[axis];
    return product;
  }

  friend bool operator==(const ParameterSpec&, const ParameterSpec&) = default;
};

// Values for a list of specs, zero at first; also used for gradients and optimizer slots of the
// same list. Each tensor starts at a 64-byte boundary; the gaps stay zero. Not thread-safe: owners
// synchronise.
class ParameterSet {
 public:
  ParameterSet() = default;
  // In `memory`, where that is not null and has room: so peers can read the values where they lie.
  explicit ParameterSet(std::vector<ParameterSpec> specs, LendableMemory* memory = nullptr);

  int size() const { return static_cast<int>(specs_.size()); }
  std::span<const ParameterSpec> specs() const { return specs_; }
  const ParameterSpec& spec(int key) const { return specs_[key]; }
  std::span<float> values(int key) { return {buffer_.as<float>() + offsets_[key], static_cast<size_t>(specs_[key].shape.elements())}; }
  std::span<const float> values(int key) const {
    return {buffer_.as<float>() + offsets_[key], static_cast<size_t>(specs_[key].shape.elements())};
  }
  // Of a set of gradients: which rows of `key` may differ from zero. Code that writes other rows
  // calls SetAll.
  TouchedRows& touched_rows(int key) { return touched_rows_[key]; }
  const TouchedRows& touched_rows(int key) const { return touched_rows_[key]; }
  GradientView gradient(int key) const { return {values(key), touched_rows_[key]}; }
  // The key of `name`, or -1.
  int Find(std::string_view name) const;
  // Sum of all elements, gaps not counted.
  int64_t elements() const;
  // SHA-256 over name, shape and little-endian bytes of every tensor in key order: report.json's
  // `parametersSha256`.
  std::string Sha256Hex() const;
  // SHA-256's first 8 bytes over names, shapes and element types only: two peers with the same
  // fingerprint hold the same model.
  uint64_t Fingerprint() const;

 private:
  std::vector<ParameterSpec> specs_;
  std::vector<size_t> offsets_;  // in floats
  Buffer buffer_;
  std::vector<TouchedRows> touched_rows_;  // by key
};

// Between sets of the same specs. Rows that a set of gradients has touched are not copied.
void CopyValues(const ParameterSet& from, ParameterSet& to);
ParameterSet CopyOf(const ParameterSet& set);

uint64_t FingerprintOf(std::span<const ParameterSpec> specs);
// Of one set's values, without the gaps.
int64_t BytesOf(std::span<const ParameterSpec> specs);

}  // namespace trainyard::engine
