// The IDX format of the MNIST files, all big-endian: two zero bytes, a type byte, the number of
// axes, one u32 extent per axis. Then come the elements in C order. The first axis counts the
// records. Source: http://yann.lecun.com/exdb/mnist ("The IDX file format"). All of the format is
// on this page.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "trainer/data/byte_source.h"
#include "trainer/tensor/buffer.h"
#include "trainer/tensor/shape.h"

namespace trainyard::engine {

enum class IdxType : uint8_t { kU8 = 0x08, kI8 = 0x09, kI16 = 0x0b, kI32 = 0x0c, kF32 = 0x0d, kF64 = 0x0e };

std::string_view IdxTypeName(IdxType type);
size_t IdxElementBytes(IdxType type);

struct IdxHeader {
  IdxType type = IdxType::kU8;
  Shape shape;  // with the record axis

  int64_t records() const { return shape[0]; }
  Shape record_shape() const { return Shape(shape.extents().subspan(1)); }
  size_t record_bytes() const { return static_cast<size_t>(record_shape().elements()) * IdxElementBytes(type); }
  size_t header_bytes() const { return 4 + 4 * static_cast<size_t>(shape.rank()); }
};

// The wanted records: [begin, end), end -1 for all from `begin` on.
struct IdxRange {
  int64_t begin = 0;
  int64_t end = -1;
};

struct IdxRecords {
  IdxHeader header;   // of the whole file
  int64_t begin = 0;  // the records held are [begin, end) of the file
  int64_t end = 0;
  Buffer bytes;  // their elements, still big-endian
};

// InvalidArgument when the bytes are not IDX, DataLoss when they are cut off; both name `name`.
absl::StatusOr<IdxHeader> ReadIdxHeader(ByteSource& source, std::string_view name);
// OutOfRange when the range is not inside the file; otherwise with `end` filled in.
absl::StatusOr<IdxRange> ResolveIdxRange(const IdxHeader& header, IdxRange range, std::string_view name);
// The whole file is read and checked, only the range is kept. More than `max_bytes` of it are
// refused (InvalidArgument) before they are allocated, and so is a range that the source is too
// short to hold.
absl::StatusOr<IdxRecords> ReadIdx(ByteSource& source, std::string_view name, IdxRange range = {}, uint64_t max_bytes = uint64_t{4} << 30);

// Big-endian elements as host floats; out.size() elements are read.
void DecodeIdxAsF32(IdxType type, const std::byte* bytes, std::span<float> out);
// The same as int32. kF32 and kF64 are not for this.
void DecodeIdxAsI32(IdxType type, const std::byte* bytes, std::span<int32_t> out);

}  // namespace trainyard::engine
