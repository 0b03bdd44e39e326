// numpy's array files. A .npy file: "\x93NUMPY", two version bytes, a header length (u16, from
// version 2 on u32; little-endian), the header, then the elements. The header is a Python
// dictionary {'descr': '<f4', 'fortran_order': False, 'shape': (60000, 28, 28), }, spaces and a
// line end. Source: numpy.lib.format's documentation. All of the format is on this page; .npz files
// are in npz.h.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "trainer/data/byte_source.h"
#include "trainer/data/formats/elements.h"
#include "trainer/tensor/buffer.h"
#include "trainer/tensor/shape.h"

namespace trainyard::engine {

struct NpyHeader {
  ElementType type = ElementType::kU8;
  Shape shape;              // of at least one axis, which counts the records
  uint64_t data_begin = 0;  // of the elements, in the file

  int64_t records() const { return shape[0]; }
  Shape record_shape() const { return Shape(shape.extents().subspan(1)); }
  uint64_t record_bytes() const { return static_cast<uint64_t>(record_shape().elements()) * ElementBytes(type); }
};

struct NpyArray {
  NpyHeader header;
  Buffer bytes;  // the elements, in C order
};

// InvalidArgument, DataLoss (cut off) or Unimplemented (Fortran order, big-endian, other types)
// name `name` and what was found.
absl::StatusOr<NpyHeader> ReadNpyHeader(ByteSource& source, std::string_view name);
// The whole file. More than `max_bytes` of elements are refused (InvalidArgument) before they are
// allocated, and so are more than the source can hold.
absl::StatusOr<NpyArray> ReadNpy(ByteSource& source, std::string_view name, uint64_t max_bytes = uint64_t{64} << 30);

}  // namespace trainyard::engine
